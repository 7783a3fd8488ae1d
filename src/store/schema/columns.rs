//! Columns of a batch, whatever their type, as texts, times and numbers. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Float64Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use chrono::{DateTime, Utc};

use super::{COLUMNS, ReadError};

// Places in `COLUMNS`; a test holds them together.
pub const SUBJECT: usize = 0;
pub const SESSION: usize = 1;
pub const PROCEDURE: usize = 2;
pub const STATUS: usize = 3;
pub const SUBMITTED_AT: usize = 4;
pub const JOB_ID: usize = 5;
pub const REASON: usize = 6;
pub const ATTEMPT: usize = 7;
pub const SLURM_STATE: usize = 8;
pub const EXIT_CODE: usize = 9;
pub const STARTED_AT: usize = 10;
pub const ENDED_AT: usize = 11;
pub const UPDATED_AT: usize = 12;
pub const MISSING_SINCE: usize = 13;
pub const NODE_LIST: usize = 14;
pub const REQ_MEM_MB: usize = 15;
pub const MAX_RSS_MB: usize = 16;
pub const TIME_LIMIT_S: usize = 17;
pub const ELAPSED_S: usize = 18;
pub const CPU_TIME_S: usize = 19;
pub const ALLOC_CPUS: usize = 20;
pub const JOB_NAME: usize = 21;
pub const CLUSTER: usize = 22;
pub const SUBMISSION_ID: usize = 23;
pub const REPLACES_OUTPUTS: usize = 24;
pub const RETRY_STATE: usize = 25;
pub const INPUT_SESSIONS: usize = 26;

pub fn column_name(place: usize) -> &'static str {
    COLUMNS.get(place).map_or("", |(name, _)| name)
}

/// Holds the column of one batch as texts.
pub enum Texts {
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
    pub fn get(&self, at: usize) -> Option<&str> {
        match self {
            Self::Absent => None,
            Self::Shared { .. } | Self::Each(_) => self.slot(at).map(AsRef::as_ref),
            Self::Plain(array) => array.is_valid(at).then(|| array.value(at)),
        }
    }

    pub fn shared(&self, at: usize) -> Option<Arc<str>> {
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

pub enum Times {
    Absent,
    Some { unit: TimeUnit, values: Int64Array },
}

impl Times {
    pub fn get(
        &self,
        at: usize,
        row: usize,
        place: usize,
    ) -> Result<Option<DateTime<Utc>>, ReadError> {
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

pub enum Integers {
    Absent,
    Some(Int64Array),
    Floats(Float64Array),
}

impl Integers {
    pub fn get(&self, at: usize, row: usize, place: usize) -> Result<Option<i64>, ReadError> {
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
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// Takes dictionaries apart, except those of texts if `keep_texts`.
fn unpacked(array: &ArrayRef, keep_texts: bool) -> Result<ArrayRef, ArrowError> {
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
fn to(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, kind, &options)
}

pub fn text(
    array: Option<&ArrayRef>,
    place: usize,
    repeats: bool,
    interner: &mut Interner,
) -> Result<Texts, ReadError> {
    let Some(array) = array else {
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
                    .map(|value| value.map(|text| interner.get(text)))
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
    let values = texts
        .iter()
        .map(|value| value.map(|text| interner.get(text)))
        .collect();
    Ok(Texts::Each(values))
}

pub fn times(array: Option<&ArrayRef>, place: usize) -> Result<Times, ReadError> {
    let Some(array) = array else {
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

pub fn integers(array: Option<&ArrayRef>, place: usize) -> Result<Integers, ReadError> {
    let Some(array) = array else {
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

pub fn flags(array: Option<&ArrayRef>, place: usize) -> Result<Option<BooleanArray>, ReadError> {
    let Some(array) = array else {
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

/// True for what other programs write in place of a null.
pub fn is_null_word(text: &str) -> bool {
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

pub fn value_error(row: usize, place: usize, value: &str, expected: &'static str) -> ReadError {
    ReadError::Value {
        row,
        column: column_name(place),
        value: value.to_owned(),
        expected,
    }
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
            (CPU_TIME_S, "cpu_time_s"),
            (ALLOC_CPUS, "alloc_cpus"),
            (JOB_NAME, "job_name"),
            (CLUSTER, "cluster"),
            (SUBMISSION_ID, "submission_id"),
            (REPLACES_OUTPUTS, "replaces_outputs"),
            (RETRY_STATE, "retry_state"),
            (INPUT_SESSIONS, "input_sessions"),
        ];
        assert_eq!(places.len(), COLUMNS.len());
        for (place, name) in places {
            assert_eq!(column_name(place), name);
        }
    }
}
