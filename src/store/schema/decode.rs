//! Converts Arrow batches to rows. Pure.
//!
//! Files of this program have exactly the types of [`COLUMNS`]. Files of the Python program,
//! pandas, polars and others are accepted if their meaning is certain. A row that cannot be
//! understood is an error; it is never dropped.

use std::collections::BTreeMap;
use std::ops::Range;

use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::ReadError;
use super::cells::{Cells, Interner, Misfit};
use crate::model::state::columns::{COLUMNS, Kind, Value};
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};

/// A reader of the batches of one file, in order.
pub(super) struct Decoder {
    layout: Layout,
    /// False if another program wrote the file.
    own_file: bool,
    texts: Interner,
    /// A row without values.
    blank: TaskRow,
    first_row: usize,
    strange_reasons: BTreeMap<String, (usize, String)>,
}

/// About 256 KB.
const CACHED_ROWS: usize = 512;

/// The positions of the columns in a file.
pub(super) struct Layout {
    /// In the order of [`COLUMNS`].
    own: Vec<Option<usize>>,
    /// Other columns, without an index that pandas saved.
    other_columns: Vec<usize>,
}

impl Layout {
    pub(super) fn of(schema: &Schema) -> Result<Self, ReadError> {
        let mut own = vec![None; COLUMNS.len()];
        let mut other_columns = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            let mut places = own.iter_mut().zip(COLUMNS);
            match places.find(|(_, column)| column.name == name) {
                Some((place, column)) if place.is_some() => {
                    let problem = format!("column '{}' appears twice", column.name);
                    return Err(ReadError::NotUnderstood(problem));
                }
                Some((place, _)) => *place = Some(at),
                None if name.starts_with("__index_level_") => {}
                None => other_columns.push(at),
            }
        }
        let mut places = own.iter().zip(COLUMNS);
        match places.find(|(place, column)| place.is_none() && is_needed(column.kind)) {
            Some((_, column)) => {
                let found = schema.fields().iter().map(|field| field.name().as_str());
                Err(ReadError::NotUnderstood(format!(
                    "column '{}' is missing (found: {})",
                    column.name,
                    Vec::from_iter(found).join(", ")
                )))
            }
            None => Ok(Self { own, other_columns }),
        }
    }
}

fn is_needed(kind: Kind) -> bool {
    matches!(kind, Kind::Label | Kind::Status)
}

impl Decoder {
    pub(super) fn new(layout: Layout, own_file: bool) -> Self {
        Self {
            layout,
            own_file,
            texts: Interner::default(),
            blank: TaskRow::new(TaskKey::default(), TaskStatus::Pending),
            first_row: 0,
            strange_reasons: BTreeMap::new(),
        }
    }

    /// Appends the rows of a batch. Each gets its line number in the table of other columns, if there
    /// are any.
    pub(super) fn append(
        &mut self,
        batch: &RecordBatch,
        rows: &mut Vec<TaskRow>,
    ) -> Result<(), ReadError> {
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for (place, column) in self.layout.own.iter().zip(COLUMNS) {
            let array = place.and_then(|at| batch.columns().get(at));
            columns.push(Cells::of(array, column, &mut self.texts)?);
        }
        rows.reserve(batch.num_rows());
        // Column by column, for as many rows as fit into the processor's cache.
        for first in (0..batch.num_rows()).step_by(CACHED_ROWS) {
            let part = first..batch.num_rows().min(first + CACHED_ROWS);
            self.read(&columns, part, rows)?;
        }
        self.first_row += batch.num_rows();
        Ok(())
    }

    /// Appends some rows of a batch.
    fn read(
        &mut self,
        columns: &[Cells],
        part: Range<usize>,
        rows: &mut Vec<TaskRow>,
    ) -> Result<(), ReadError> {
        let (first, start) = (part.start, rows.len());
        rows.resize(start + part.len(), self.blank.clone());
        let new = rows.get_mut(start..).unwrap_or_default();
        if !self.layout.other_columns.is_empty() {
            for (number, row) in (self.first_row + first..).zip(new.iter_mut()) {
                row.other_columns = u32::try_from(number).ok();
            }
        }
        for (column, cells) in COLUMNS.iter().zip(columns) {
            let set = |at: usize, value: Option<Value<'_>>| {
                let value = match value {
                    Some(value) if !self.own_file => from_others(column.kind, value),
                    value => value,
                };
                let Some((value, row)) = value.zip(new.get_mut(at - first)) else {
                    return match is_needed(column.kind) {
                        true => Err(misfit(column.kind, None)),
                        false => Ok(()),
                    };
                };
                if column.kind == Kind::Reason {
                    // Status and task were read before; the reason is compared with them.
                    let word = value.text().unwrap_or_default();
                    row.reason = self.reason(word, row, self.first_row + at);
                } else if !(column.set)(row, &value) {
                    return Err(misfit(column.kind, Some(value)));
                }
                Ok(())
            };
            cells
                .each(part.clone(), set)
                .map_err(|(at, Misfit(value, expected))| {
                    // Rows count from 0, as pandas shows them.
                    let (row, name) = (self.first_row + at, column.name);
                    let problem = format!("row {row}: {name} is {value}, expected {expected}");
                    ReadError::NotUnderstood(problem)
                })?;
        }
        Ok(())
    }

    pub(super) fn warnings(self) -> Vec<String> {
        self.strange_reasons
            .into_iter()
            .map(|(word, (count, first))| {
                let rows = if count == 1 { "row" } else { "rows" };
                format!("{count} {rows} with {word} (first: {first}): read without a reason")
            })
            .collect()
    }

    /// Reads the reason of a row whose earlier columns are complete.
    fn reason(&mut self, word: &str, row: &TaskRow, number: usize) -> Option<Reason> {
        let status = row.status;
        let strange = match word.parse::<Reason>() {
            Ok(reason) if self.own_file || reason.fits(status) => return Some(reason),
            // A script changed the status; the reason belongs to the previous status.
            Ok(reason) => {
                format!("status {status} and reason '{reason}', which do not match")
            }
            Err(_) if is_null_word(word.trim()) => return None,
            Err(_) => format!("the unknown reason '{word}'"),
        };
        let place = || (0, format!("row {number}, {}", row.key));
        self.strange_reasons.entry(strange).or_insert_with(place).0 += 1;
        None
    }
}

fn misfit(kind: Kind, value: Option<Value<'_>>) -> Misfit {
    let text = match &value {
        None => "null".to_owned(),
        Some(value) => match (value.text(), value.number()) {
            (Some(text), _) => format!("'{text}'"),
            (None, number) => number.unwrap_or_default().to_string(),
        },
    };
    let expected = match kind {
        Kind::Status => "pending, running, complete or failed",
        Kind::Int32 => "a number of 32 bits",
        _ => "a text",
    };
    Misfit(text, expected)
}

/// Reads a value of another program's file; some write words or an empty text instead of null.
fn from_others(kind: Kind, value: Value<'_>) -> Option<Value<'_>> {
    match (kind, value.text()) {
        (Kind::Text | Kind::UniqueText, Some("")) => None,
        (Kind::JobId, Some(text)) => {
            let text = text.trim();
            // With missing values, pandas turns numbers into floats, and these become texts.
            let id = match text.strip_suffix(".0") {
                Some(whole) if whole.bytes().all(|byte| byte.is_ascii_digit()) => whole,
                _ => text,
            };
            (!is_null_word(text)).then(|| Value::Text(id.to_owned().into()))
        }
        _ => Some(value),
    }
}

/// True for words that other programs write instead of null.
fn is_null_word(text: &str) -> bool {
    matches!(
        text,
        "" | "None" | "nan" | "NaN" | "<NA>" | "NA" | "null" | "NULL"
    )
}

/// The other columns, if any.
pub(super) fn part_of_others(
    batch: &RecordBatch,
    decoder: &Decoder,
) -> Result<Option<RecordBatch>, ArrowError> {
    if decoder.layout.other_columns.is_empty() {
        return Ok(None);
    }
    batch.project(&decoder.layout.other_columns).map(Some)
}
