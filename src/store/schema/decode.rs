//! Converts Arrow batches to rows. Pure.
//!
//! Files of this program have exactly the types of [`COLUMNS`]. Files of the Python program,
//! pandas, polars and others are accepted if their meaning is certain. A row that cannot be
//! understood is an error; it is never dropped.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::compute::{max, min};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, Schema, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use chrono::DateTime;

use super::{ReadError, cast, data_type, dictionary, repeats};
use crate::base::text::plural;
use crate::model::state::columns::{COLUMNS, Column, Kind, Value};
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};

/// A reader of the batches of one file, in order.
pub(super) struct Decoder {
    /// The positions of our columns in the file, in the order of [`COLUMNS`].
    own: Vec<Option<usize>>,
    /// Those of other columns, without an index that pandas saved.
    other_columns: Vec<usize>,
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

fn is_needed(kind: Kind) -> bool {
    matches!(kind, Kind::Label | Kind::Status)
}

impl Decoder {
    pub(super) fn new(schema: &Schema, own_file: bool) -> Result<Self, ReadError> {
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
        let mut absent = own.iter().zip(COLUMNS).filter(|(place, _)| place.is_none());
        if let Some((_, column)) = absent.find(|(_, column)| is_needed(column.kind)) {
            let found = schema.fields().iter().map(|field| field.name().as_str());
            return Err(ReadError::NotUnderstood(format!(
                "column '{}' is missing (found: {})",
                column.name,
                Vec::from_iter(found).join(", ")
            )));
        }
        Ok(Self {
            own,
            other_columns,
            own_file,
            texts: Interner::default(),
            blank: TaskRow::new(TaskKey::default(), TaskStatus::Pending),
            first_row: 0,
            strange_reasons: BTreeMap::new(),
        })
    }

    /// Appends the rows of a batch. Each gets its line number in the table of other columns, if there
    /// are any.
    pub(super) fn append(
        &mut self,
        batch: &RecordBatch,
        rows: &mut Vec<TaskRow>,
    ) -> Result<(), ReadError> {
        let mut columns = Vec::with_capacity(COLUMNS.len());
        for (place, column) in self.own.iter().zip(COLUMNS) {
            let array = place.and_then(|at| batch.columns().get(at));
            let absent = Cells::Absent;
            let cells = array.map_or(Ok(absent), |array| {
                Cells::of(array, column, self.first_row, &mut self.texts)
            });
            columns.push(cells?);
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
        if !self.other_columns.is_empty() {
            for (number, row) in (self.first_row + first..).zip(new.iter_mut()) {
                row.other_columns = u32::try_from(number).ok();
            }
        }
        for (column, cells) in COLUMNS.iter().zip(columns) {
            if matches!(cells, Cells::Absent) && !is_needed(column.kind) {
                continue;
            }
            cells.each(part.clone(), |at, value| {
                let number = self.first_row + at;
                let value = match value {
                    Some(value) if !self.own_file => from_others(column.kind, value),
                    value => value,
                };
                let Some((value, row)) = value.zip(new.get_mut(at - first)) else {
                    return match is_needed(column.kind) {
                        true => Err(misfit(number, column, "null", "a text")),
                        false => Ok(()),
                    };
                };
                if column.kind == Kind::Reason {
                    // Status and task were read before; the reason is compared with them.
                    let word = value.text().unwrap_or_default();
                    row.reason = self.reason(word, row, number);
                } else if !(column.set)(row, &value) {
                    let expected = match column.kind {
                        Kind::Status => "pending, running, complete or failed",
                        Kind::Int32 => "a number of 32 bits",
                        _ => "a text",
                    };
                    let text = value.text().map(|text| format!("'{text}'"));
                    let text = text.or(value.number().map(|number| number.to_string()));
                    return Err(misfit(number, column, &text.unwrap_or_default(), expected));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The other columns, if any.
    pub(super) fn part_of_others(
        &self,
        batch: &RecordBatch,
    ) -> Result<Option<RecordBatch>, ArrowError> {
        let others = Some(&self.other_columns).filter(|others| !others.is_empty());
        others.map(|others| batch.project(others)).transpose()
    }

    pub(super) fn warnings(self) -> Vec<String> {
        self.strange_reasons
            .into_iter()
            .map(|(word, (count, first))| {
                let rows = plural(count, "row");
                format!("{rows} with {word} (first: {first}): read without a reason")
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

/// Rows count from 0, as pandas shows them.
fn misfit(row: usize, column: &Column, value: &str, expected: &str) -> ReadError {
    let name = column.name;
    ReadError::NotUnderstood(format!("row {row}: {name} is {value}, expected {expected}"))
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

/// One column of a batch.
enum Cells {
    Absent,
    /// Repeated texts, each stored once.
    Shared {
        keys: Int32Array,
        values: Vec<Option<Arc<str>>>,
    },
    Plain(StringArray),
    Times(TimestampMicrosecondArray),
    Numbers(Int64Array),
    Flags(BooleanArray),
}

impl Cells {
    fn of(
        array: &ArrayRef,
        column: &Column,
        first_row: usize,
        interner: &mut Interner,
    ) -> Result<Self, ReadError> {
        if *array.data_type() == DataType::Null || array.null_count() == array.len() {
            return Ok(Self::Absent);
        }
        let damaged = |error: ArrowError| ReadError::Damaged(error.to_string());
        let to = match data_type(column.kind) {
            DataType::Int32 => DataType::Int64,
            DataType::Timestamp(unit, _) => DataType::Timestamp(unit, None),
            to => to,
        };
        let found = match array.data_type() {
            DataType::Dictionary(_, value) if !is_shared(array) || to != DataType::Utf8 => {
                cast(array, value).map_err(damaged)?
            }
            _ => Arc::clone(array),
        };
        let from = found.data_type();
        let (fits, wanted) = match to {
            DataType::Timestamp(..) => (from.is_temporal(), "timestamp"),
            DataType::Int64 => (from.is_integer() || from.is_floating(), "whole numbers"),
            DataType::Boolean => (*from == to || from.is_numeric(), "true or false"),
            _ => {
                let is_text = from.is_string() || from.is_binary() || from.is_numeric();
                (is_text || is_shared(&found), "text")
            }
        };
        if !fits {
            let (name, found) = (column.name, array.data_type());
            let problem = format!("column '{name}' has type {found}, expected {wanted}");
            return Err(ReadError::NotUnderstood(problem));
        }
        if is_shared(&found) {
            return Ok(Self::shared(&found, interner));
        }
        let converted = convert(&found, &to).map_err(|_| {
            let rows = 0..found.len();
            let mut wrong = rows.filter(|&at| convert(&found.slice(at, 1), &to).is_err());
            let at = wrong.next().unwrap_or_default();
            let value = array_value_to_string(&found, at).unwrap_or_default();
            misfit(first_row + at, column, &value, wanted)
        })?;
        Ok(match to {
            DataType::Timestamp(..) => Self::Times(converted.as_primitive().clone()),
            DataType::Int64 => Self::Numbers(converted.as_primitive().clone()),
            DataType::Boolean => Self::Flags(converted.as_boolean().clone()),
            _ if repeats(column.kind) => {
                let shared = cast(&converted, &dictionary()).map_err(damaged)?;
                Self::shared(&shared, interner)
            }
            _ => Self::Plain(converted.as_string().clone()),
        })
    }

    fn shared(array: &ArrayRef, interner: &mut Interner) -> Self {
        let dictionary = array.as_dictionary::<Int32Type>();
        let values = dictionary.values().as_string::<i32>().iter();
        Self::Shared {
            values: values.map(|text| Some(interner.get(text?))).collect(),
            keys: dictionary.keys().clone(),
        }
    }

    /// Passes the values of some rows to `take` in order, `None` for a null, up to the first error.
    fn each(
        &self,
        rows: Range<usize>,
        mut take: impl FnMut(usize, Option<Value<'_>>) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        // Matches the kind once, not for each value.
        macro_rules! all {
            (|$at:ident| $value:expr) => {
                for $at in rows {
                    take($at, $value)?;
                }
            };
        }
        match self {
            Self::Absent => all!(|at| None),
            Self::Shared { keys, values } => all!(|at| {
                let key = cell(keys, at).and_then(|key| usize::try_from(key).ok());
                let value = key.and_then(|key| values.get(key)?.as_ref());
                value.map(Value::Shared)
            }),
            Self::Plain(texts) => all!(|at| cell(texts, at).map(Cow::Borrowed).map(Value::Text)),
            Self::Times(times) => all!(|at| {
                let time = cell(times, at).and_then(DateTime::from_timestamp_micros);
                time.map(Value::Time)
            }),
            Self::Numbers(numbers) => all!(|at| cell(numbers, at).map(Value::Number)),
            Self::Flags(flags) => all!(|at| cell(flags, at).map(Value::Flag)),
        }
        Ok(())
    }
}

fn is_shared(array: &ArrayRef) -> bool {
    *array.data_type() == dictionary()
}

/// Converts values to a type of this program's files. A zone changes only how a time is shown; a time without one is
/// UTC. NaN is null.
fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let misfit = || ArrowError::CastError(String::new());
    if array.data_type().is_floating() && *to != DataType::Boolean {
        let numbers = cast(array, &DataType::Float64)?;
        let numbers = numbers.as_primitive::<Float64Type>();
        let numbers = numbers.unary_opt::<_, Float64Type>(|n| Some(n).filter(|n| !n.is_nan()));
        if *to != DataType::Int64 {
            return cast(&(Arc::new(numbers) as ArrayRef), to);
        }
        // Up to 2^53 a float represents every whole number.
        let whole = numbers.try_unary::<_, Int64Type, _>(|n| {
            let is_whole = n.fract() == 0.0 && n.abs() <= 9_007_199_254_740_992.0;
            #[expect(clippy::cast_possible_truncation, reason = "an integer in range")]
            is_whole.then_some(n as i64).ok_or_else(misfit)
        })?;
        return Ok(Arc::new(whole));
    }
    let converted = cast(array, to)?;
    if let Some(times) = converted.as_primitive_opt::<TimestampMicrosecondType>() {
        let mut ends = [min(times), max(times)].into_iter().flatten();
        if ends.any(|end| DateTime::from_timestamp_micros(end).is_none()) {
            return Err(misfit());
        }
    }
    Ok(converted)
}

fn cell<A: ArrayAccessor>(array: A, at: usize) -> Option<A::Item> {
    array.is_valid(at).then(|| array.value(at))
}

/// A store of texts that keeps each once.
#[derive(Default)]
struct Interner(HashSet<Arc<str>>);

impl Interner {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}
