//! An Arrow batch to rows. Pure.
//!
//! Files of this program have exactly the types of [`super::COLUMNS`]. Files of the Python program,
//! pandas, polars and others are taken as they are, as long as their meaning is certain; a row
//! that cannot be understood is an error, it never vanishes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, Schema, TimeUnit, TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use chrono::{DateTime, Utc};

use super::{COLUMNS, ReadError};
use crate::executor::JobId;
use crate::state::{JobFacts, Reason, TaskKey, TaskRow, TaskStatus};

/// Reads the batches of one file, in order.
pub struct Decoder {
    layout: Layout,
    /// False: the file was written by another program.
    own_file: bool,
    texts: Interner,
    first_row: usize,
    strange_reasons: BTreeMap<String, (usize, String)>,
}

/// Says where the columns stand.
pub struct Layout {
    own: [Option<usize>; COLUMNS.len()],
    /// Columns that are not ours; an index that pandas has saved is left out.
    foreign: Vec<usize>,
}

impl Layout {
    pub fn of(schema: &Schema) -> Result<Self, ReadError> {
        let mut own = [None; COLUMNS.len()];
        let mut foreign = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            match COLUMNS.iter().position(|(own, _)| own == name) {
                Some(place) => {
                    if let Some(slot) = own.get_mut(place)
                        && slot.replace(at).is_some()
                    {
                        return Err(ReadError::DoubledColumn(column_name(place)));
                    }
                }
                None if name.starts_with("__index_level_") => {}
                None => foreign.push(at),
            }
        }
        for needed in [SUBJECT, PROCEDURE, STATUS] {
            if own.get(needed).copied().flatten().is_none() {
                return Err(ReadError::MissingColumn {
                    column: column_name(needed),
                    found: schema.fields().iter().map(|f| f.name().clone()).collect(),
                });
            }
        }
        Ok(Self { own, foreign })
    }
}

// Places in `COLUMNS`; a test holds them together.
const SUBJECT: usize = 0;
const SESSION: usize = 1;
const PROCEDURE: usize = 2;
const STATUS: usize = 3;
const SUBMITTED_AT: usize = 4;
const JOB_ID: usize = 5;
const REASON: usize = 6;
const ATTEMPT: usize = 7;
const SLURM_STATE: usize = 8;
const EXIT_CODE: usize = 9;
const STARTED_AT: usize = 10;
const ENDED_AT: usize = 11;
const UPDATED_AT: usize = 12;
const MISSING_SINCE: usize = 13;
const NODE_LIST: usize = 14;
const REQ_MEM_MB: usize = 15;
const MAX_RSS_MB: usize = 16;
const TIME_LIMIT_S: usize = 17;
const ELAPSED_S: usize = 18;
const JOB_NAME: usize = 19;
const CLUSTER: usize = 20;
const SUBMISSION_ID: usize = 21;
const REPLACES_OUTPUTS: usize = 22;

fn column_name(place: usize) -> &'static str {
    COLUMNS.get(place).map_or("", |(name, _)| name)
}

impl Decoder {
    pub fn new(layout: Layout, own_file: bool) -> Self {
        Self {
            layout,
            own_file,
            texts: Interner::default(),
            first_row: 0,
            strange_reasons: BTreeMap::new(),
        }
    }

    /// Appends the rows of a batch. Each gets its line in the table of foreign columns, if there
    /// are any.
    pub fn append(
        &mut self,
        batch: &RecordBatch,
        rows: &mut Vec<TaskRow>,
    ) -> Result<(), ReadError> {
        let subject = self.text(batch, SUBJECT, true)?;
        let session = self.text(batch, SESSION, true)?;
        let procedure = self.text(batch, PROCEDURE, true)?;
        let status = self.text(batch, STATUS, false)?;
        let submitted_at = self.times(batch, SUBMITTED_AT)?;
        let job_id = self.text(batch, JOB_ID, false)?;
        let reason = self.text(batch, REASON, false)?;
        let attempt = self.integers(batch, ATTEMPT)?;
        let slurm_state = self.text(batch, SLURM_STATE, true)?;
        let exit_code = self.text(batch, EXIT_CODE, true)?;
        let started_at = self.times(batch, STARTED_AT)?;
        let ended_at = self.times(batch, ENDED_AT)?;
        let updated_at = self.times(batch, UPDATED_AT)?;
        let missing_since = self.times(batch, MISSING_SINCE)?;
        let node_list = self.text(batch, NODE_LIST, true)?;
        let req_mem_mb = self.integers(batch, REQ_MEM_MB)?;
        let max_rss_mb = self.integers(batch, MAX_RSS_MB)?;
        let time_limit_s = self.integers(batch, TIME_LIMIT_S)?;
        let elapsed_s = self.integers(batch, ELAPSED_S)?;
        let job_name = self.text(batch, JOB_NAME, false)?;
        let cluster = self.text(batch, CLUSTER, true)?;
        let submission_id = self.text(batch, SUBMISSION_ID, false)?;
        let replaces_outputs = self.flags(batch, REPLACES_OUTPUTS)?;
        let has_foreign = !self.layout.foreign.is_empty();
        let empty: Arc<str> = self.texts.get("");

        rows.reserve(batch.num_rows());
        for at in 0..batch.num_rows() {
            let row = self.first_row + at;
            let indispensable = |column: &Texts, place| {
                column
                    .shared(at)
                    .ok_or_else(|| value_error(row, place, "null", "a text"))
            };
            let key = TaskKey {
                subject: indispensable(&subject, SUBJECT)?,
                session: session.shared(at).unwrap_or_else(|| Arc::clone(&empty)),
                procedure: indispensable(&procedure, PROCEDURE)?,
            };
            let word = status.get(at);
            let status = word.and_then(|word| word.parse().ok()).ok_or_else(|| {
                let shown = word.map_or_else(|| "null".to_owned(), |word| format!("'{word}'"));
                value_error(row, STATUS, &shown, "pending, running, complete or failed")
            })?;
            let optional = |column: &Texts| {
                column
                    .shared(at)
                    .filter(|text| self.own_file || !text.is_empty())
            };
            rows.push(TaskRow {
                status,
                submitted_at: submitted_at.get(at, row, SUBMITTED_AT)?,
                job_id: job_id.get(at).and_then(|text| self.job_id(text)),
                reason: match reason.get(at) {
                    Some(word) => parse_reason(
                        word,
                        status,
                        self.own_file,
                        &mut self.strange_reasons,
                        || format!("row {row}, {key}"),
                    ),
                    None => None,
                },
                attempt: match attempt.get(at, row, ATTEMPT)? {
                    Some(count) => Some(i32::try_from(count).map_err(|_| {
                        value_error(row, ATTEMPT, &count.to_string(), "a number of 32 bits")
                    })?),
                    None => None,
                },
                facts: JobFacts {
                    slurm_state: optional(&slurm_state),
                    exit_code: optional(&exit_code),
                    started_at: started_at.get(at, row, STARTED_AT)?,
                    ended_at: ended_at.get(at, row, ENDED_AT)?,
                    node_list: optional(&node_list),
                    req_mem_mb: req_mem_mb.get(at, row, REQ_MEM_MB)?,
                    max_rss_mb: max_rss_mb.get(at, row, MAX_RSS_MB)?,
                    time_limit_s: time_limit_s.get(at, row, TIME_LIMIT_S)?,
                    elapsed_s: elapsed_s.get(at, row, ELAPSED_S)?,
                    cluster: optional(&cluster),
                },
                updated_at: updated_at.get(at, row, UPDATED_AT)?,
                missing_since: missing_since.get(at, row, MISSING_SINCE)?,
                job_name: optional(&job_name),
                submission_id: optional(&submission_id),
                replaces_outputs: replaces_outputs
                    .as_ref()
                    .and_then(|flags| flags.is_valid(at).then(|| flags.value(at))),
                foreign: if has_foreign {
                    u32::try_from(row).ok()
                } else {
                    None
                },
                key,
            });
        }
        self.first_row += batch.num_rows();
        Ok(())
    }

    /// Returns what a person should hear of.
    pub fn warnings(self) -> Vec<String> {
        self.strange_reasons
            .into_iter()
            .map(|(word, (count, first))| {
                let rows = if count == 1 { "row" } else { "rows" };
                format!("{count} {rows} with {word} (first: {first}): read without a reason")
            })
            .collect()
    }

    fn array<'a>(&self, batch: &'a RecordBatch, place: usize) -> Option<&'a ArrayRef> {
        let at = self.layout.own.get(place).copied().flatten()?;
        batch.columns().get(at)
    }

    fn text(
        &mut self,
        batch: &RecordBatch,
        place: usize,
        repeats: bool,
    ) -> Result<Texts, ReadError> {
        let Some(array) = self.array(batch, place) else {
            return Ok(Texts::Absent);
        };
        let array = unpacked(array, true).map_err(|_| type_error(array, place, "text"))?;
        let texts = match array.data_type() {
            DataType::Null => return Ok(Texts::Absent),
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_dictionary::<Int32Type>();
                let values = dictionary.values().as_string::<i32>();
                return Ok(Texts::Shared {
                    values: values
                        .iter()
                        .map(|value| value.map(|text| self.texts.get(text)))
                        .collect(),
                    keys: dictionary.keys().clone(),
                });
            }
            kind if kind.is_string() || kind.is_integer() || kind.is_binary() => {
                to(&array, &DataType::Utf8).map(|array| array.as_string::<i32>().clone())
            }
            kind if kind.is_floating() => to(&array, &DataType::Float64).map(|array| {
                array
                    .as_primitive::<Float64Type>()
                    .iter()
                    .map(|value| {
                        value
                            .filter(|number| !number.is_nan())
                            .map(|number| number.to_string())
                    })
                    .collect()
            }),
            _ => return Err(type_error(&array, place, "text")),
        }
        .map_err(|_| type_error(&array, place, "text"))?;
        if !repeats {
            return Ok(Texts::Plain(texts));
        }
        let interner = &mut self.texts;
        let values = texts
            .iter()
            .map(|value| value.map(|text| interner.get(text)))
            .collect();
        Ok(Texts::Each(values))
    }

    fn times(&self, batch: &RecordBatch, place: usize) -> Result<Times, ReadError> {
        let Some(array) = self.array(batch, place) else {
            return Ok(Times::Absent);
        };
        let wrong = || type_error(array, place, "timestamp");
        let array = unpacked(array, false).map_err(|_| wrong())?;
        Ok(match array.data_type() {
            DataType::Null => Times::Absent,
            // A zone changes how a time is shown, not what is stored; without one it is UTC.
            DataType::Timestamp(unit, _) => Times::Some {
                unit: *unit,
                values: to(&array, &DataType::Int64)
                    .map_err(|_| wrong())?
                    .as_primitive::<Int64Type>()
                    .clone(),
            },
            DataType::Date32 | DataType::Date64 => {
                let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
                let array = to(&array, &micros).map_err(|_| wrong())?;
                Times::Some {
                    unit: TimeUnit::Microsecond,
                    values: array
                        .as_primitive::<TimestampMicrosecondType>()
                        .reinterpret_cast::<Int64Type>(),
                }
            }
            _ => return Err(wrong()),
        })
    }

    fn integers(&self, batch: &RecordBatch, place: usize) -> Result<Integers, ReadError> {
        let Some(array) = self.array(batch, place) else {
            return Ok(Integers::Absent);
        };
        let wrong = || type_error(array, place, "whole numbers");
        let array = unpacked(array, false).map_err(|_| wrong())?;
        Ok(match array.data_type() {
            DataType::Null => Integers::Absent,
            kind if kind.is_floating() => Integers::Floats(
                to(&array, &DataType::Float64)
                    .map_err(|_| wrong())?
                    .as_primitive::<Float64Type>()
                    .clone(),
            ),
            kind if kind.is_integer() => Integers::Some(
                to(&array, &DataType::Int64)
                    .map_err(|_| wrong())?
                    .as_primitive::<Int64Type>()
                    .clone(),
            ),
            _ => return Err(wrong()),
        })
    }

    fn flags(&self, batch: &RecordBatch, place: usize) -> Result<Option<BooleanArray>, ReadError> {
        let Some(array) = self.array(batch, place) else {
            return Ok(None);
        };
        let wrong = || type_error(array, place, "true or false");
        let array = unpacked(array, false).map_err(|_| wrong())?;
        match array.data_type() {
            DataType::Null => Ok(None),
            kind if *kind == DataType::Boolean || kind.is_numeric() => Ok(Some(
                to(&array, &DataType::Boolean)
                    .map_err(|_| wrong())?
                    .as_boolean()
                    .clone(),
            )),
            _ => Err(wrong()),
        }
    }

    fn job_id(&self, text: &str) -> Option<JobId> {
        if self.own_file {
            return Some(JobId::new(text));
        }
        let text = text.trim();
        if is_null_word(text) {
            return None;
        }
        // Numbers with empty places become floats in pandas, and these become texts.
        Some(JobId::new(match text.strip_suffix(".0") {
            Some(whole) if whole.bytes().all(|byte| byte.is_ascii_digit()) => whole,
            _ => text,
        }))
    }
}

/// Holds the column of one batch as texts.
enum Texts {
    Absent,
    /// Texts that repeat, each stored once.
    Shared {
        keys: Int32Array,
        values: Vec<Option<Arc<str>>>,
    },
    Each(Vec<Option<Arc<str>>>),
    Plain(StringArray),
}

impl Texts {
    fn get(&self, at: usize) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Shared { .. } | Self::Each(_) => self.slot(at).map(AsRef::as_ref),
            Self::Plain(array) => array.is_valid(at).then(|| array.value(at)),
        }
    }

    fn shared(&self, at: usize) -> Option<Arc<str>> {
        match self {
            Self::Plain(_) => self.get(at).map(Arc::from),
            _ => self.slot(at).cloned(),
        }
    }

    fn slot(&self, at: usize) -> Option<&Arc<str>> {
        match self {
            Self::Shared { keys, values } if keys.is_valid(at) => {
                values.get(usize::try_from(keys.value(at)).ok()?)?.as_ref()
            }
            Self::Each(values) => values.get(at)?.as_ref(),
            _ => None,
        }
    }
}

enum Times {
    Absent,
    Some { unit: TimeUnit, values: Int64Array },
}

impl Times {
    fn get(&self, at: usize, row: usize, place: usize) -> Result<Option<DateTime<Utc>>, ReadError> {
        match self {
            Self::Some { unit, values } if values.is_valid(at) => {
                let value = values.value(at);
                let micros = match unit {
                    TimeUnit::Second => value.checked_mul(1_000_000),
                    TimeUnit::Millisecond => value.checked_mul(1_000),
                    TimeUnit::Microsecond => Some(value),
                    TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
                };
                let time = micros.and_then(DateTime::from_timestamp_micros);
                time.map(Some).ok_or_else(|| {
                    value_error(
                        row,
                        place,
                        &value.to_string(),
                        "a time that a calendar knows",
                    )
                })
            }
            _ => Ok(None),
        }
    }
}

enum Integers {
    Absent,
    Some(Int64Array),
    Floats(arrow::array::Float64Array),
}

impl Integers {
    fn get(&self, at: usize, row: usize, place: usize) -> Result<Option<i64>, ReadError> {
        match self {
            Self::Some(values) if values.is_valid(at) => Ok(Some(values.value(at))),
            Self::Floats(values) if values.is_valid(at) && !values.value(at).is_nan() => {
                let value = values.value(at);
                // Up to 2^53 a float holds every whole number.
                if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
                    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
                    Ok(Some(value as i64))
                } else {
                    Err(value_error(
                        row,
                        place,
                        &value.to_string(),
                        "a whole number",
                    ))
                }
            }
            _ => Ok(None),
        }
    }
}

/// Stores every text once.
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

/// Takes dictionaries apart, except those of texts if `keep_texts`.
fn unpacked(array: &ArrayRef, keep_texts: bool) -> Result<ArrayRef, arrow::error::ArrowError> {
    match array.data_type() {
        DataType::Dictionary(key, value) => {
            if keep_texts && **key == DataType::Int32 && **value == DataType::Utf8 {
                return Ok(Arc::clone(array));
            }
            to(array, value)
        }
        _ => Ok(Arc::clone(array)),
    }
}

/// Casts; a value that does not fit is an error, never a null.
fn to(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, arrow::error::ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, kind, &options)
}

fn parse_reason(
    word: &str,
    status: TaskStatus,
    own_file: bool,
    strange: &mut BTreeMap<String, (usize, String)>,
    place: impl Fn() -> String,
) -> Option<Reason> {
    let mut complain = |text: String| {
        strange.entry(text).or_insert_with(|| (0, place())).0 += 1;
        None
    };
    match word.parse::<Reason>() {
        Ok(reason) if own_file || reason.fits(status) => Some(reason),
        // A script has set the status by hand; the reason told of the one before.
        Ok(reason) => complain(format!(
            "status {status} and reason '{reason}', which do not go together"
        )),
        Err(_) if is_null_word(word.trim()) => None,
        Err(_) => complain(format!("the unknown reason '{word}'")),
    }
}

/// True for what other programs write in place of a null.
fn is_null_word(text: &str) -> bool {
    matches!(
        text,
        "" | "None" | "nan" | "NaN" | "<NA>" | "NA" | "null" | "NULL"
    )
}

fn type_error(array: &ArrayRef, place: usize, expected: &'static str) -> ReadError {
    ReadError::ColumnType {
        column: column_name(place),
        found: array.data_type().to_string(),
        expected,
    }
}

fn value_error(row: usize, place: usize, value: &str, expected: &'static str) -> ReadError {
    ReadError::Value {
        row,
        column: column_name(place),
        value: value.to_owned(),
        expected,
    }
}

/// Returns the columns that are not ours. None: there are none.
pub fn foreign_part(
    batch: &RecordBatch,
    decoder: &Decoder,
) -> Result<Option<RecordBatch>, arrow::error::ArrowError> {
    if decoder.layout.foreign.is_empty() {
        return Ok(None);
    }
    batch.project(&decoder.layout.foreign).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_of_the_columns() {
        let places = [
            (SUBJECT, "subject"),
            (SESSION, "session"),
            (PROCEDURE, "procedure"),
            (STATUS, "status"),
            (SUBMITTED_AT, "submitted_at"),
            (JOB_ID, "job_id"),
            (REASON, "reason"),
            (ATTEMPT, "attempt"),
            (SLURM_STATE, "slurm_state"),
            (EXIT_CODE, "exit_code"),
            (STARTED_AT, "started_at"),
            (ENDED_AT, "ended_at"),
            (UPDATED_AT, "updated_at"),
            (MISSING_SINCE, "missing_since"),
            (NODE_LIST, "node_list"),
            (REQ_MEM_MB, "req_mem_mb"),
            (MAX_RSS_MB, "max_rss_mb"),
            (TIME_LIMIT_S, "time_limit_s"),
            (ELAPSED_S, "elapsed_s"),
            (JOB_NAME, "job_name"),
            (CLUSTER, "cluster"),
            (SUBMISSION_ID, "submission_id"),
            (REPLACES_OUTPUTS, "replaces_outputs"),
        ];
        assert_eq!(places.len(), COLUMNS.len());
        for (place, name) in places {
            assert_eq!(column_name(place), name);
        }
    }
}
