//! The column of a batch, whatever its type, as values of its kind. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use chrono::DateTime;

use super::{ReadError, cast, data_type, repeats};
use crate::model::state::columns::{Column, Kind, Value};

/// One column of a batch.
pub enum Cells {
    Absent,
    /// Texts that repeat, each stored once.
    Shared {
        keys: Int32Array,
        values: Vec<Option<Arc<str>>>,
    },
    Each(Vec<Option<Arc<str>>>),
    Plain(StringArray),
    Times {
        unit: TimeUnit,
        values: Int64Array,
    },
    Integers(Int64Array),
    Floats(Float64Array),
    Flags(BooleanArray),
}

/// A value that its column cannot hold, and what it should be.
pub struct Misfit(pub String, pub &'static str);

impl Cells {
    pub fn of(
        array: Option<&ArrayRef>,
        column: &Column,
        interner: &mut Interner,
    ) -> Result<Self, ReadError> {
        let Some(array) = array else {
            return Ok(Self::Absent);
        };
        let cells = Self::read(array, column.kind, interner).ok().flatten();
        cells.ok_or_else(|| ReadError::ColumnType {
            column: column.name,
            found: array.data_type().to_string(),
            expected: match column.kind {
                Kind::Time => "timestamp",
                Kind::Int32 | Kind::Int64 => "whole numbers",
                Kind::Flag => "true or false",
                _ => "text",
            },
        })
    }

    /// `None`: no such values can be in a column of this type.
    fn read(
        array: &ArrayRef,
        kind: Kind,
        interner: &mut Interner,
    ) -> Result<Option<Self>, ArrowError> {
        let is_text = data_type(kind) == DataType::Utf8;
        let unpacked;
        let array = match array.data_type() {
            DataType::Dictionary(key, value)
                if !is_text || **key != DataType::Int32 || **value != DataType::Utf8 =>
            {
                unpacked = cast(array, value)?;
                &unpacked
            }
            _ => array,
        };
        let integers = |array: &ArrayRef| {
            cast(array, &DataType::Int64).map(|array| array.as_primitive::<Int64Type>().clone())
        };
        let floats = || {
            cast(array, &DataType::Float64).map(|array| array.as_primitive::<Float64Type>().clone())
        };
        Ok(Some(match (kind, array.data_type()) {
            (_, DataType::Null) => Self::Absent,
            // A zone changes how a time is shown, not what is stored; without one it is UTC.
            (Kind::Time, DataType::Timestamp(unit, _)) => Self::Times {
                unit: *unit,
                values: integers(array)?,
            },
            (Kind::Time, DataType::Date32 | DataType::Date64) => Self::Times {
                unit: TimeUnit::Microsecond,
                values: integers(&cast(
                    array,
                    &DataType::Timestamp(TimeUnit::Microsecond, None),
                )?)?,
            },
            (Kind::Int32 | Kind::Int64, found) if found.is_floating() => Self::Floats(floats()?),
            (Kind::Int32 | Kind::Int64, found) if found.is_integer() => {
                Self::Integers(integers(array)?)
            }
            (Kind::Flag, found) if *found == DataType::Boolean || found.is_numeric() => {
                Self::Flags(cast(array, &DataType::Boolean)?.as_boolean().clone())
            }
            _ if !is_text => return Ok(None),
            (_, DataType::Dictionary(_, _)) => {
                let dictionary = array.as_dictionary::<Int32Type>();
                Self::Shared {
                    values: interner.all(dictionary.values().as_string()),
                    keys: dictionary.keys().clone(),
                }
            }
            (kind, found) => {
                let texts: StringArray = if found.is_floating() {
                    let numbers = floats()?;
                    let numbers = numbers.iter();
                    numbers
                        .map(|number| number.filter(|number| !number.is_nan()))
                        .map(|number| number.map(|number| number.to_string()))
                        .collect()
                } else if found.is_string() || found.is_integer() || found.is_binary() {
                    cast(array, &DataType::Utf8)?.as_string().clone()
                } else {
                    return Ok(None);
                };
                match repeats(kind) {
                    true => Self::Each(interner.all(&texts)),
                    false => Self::Plain(texts),
                }
            }
        }))
    }

    /// Returns the value of a row; `None` for a null.
    pub fn get(&self, at: usize) -> Result<Option<Value<'_>>, Misfit> {
        Ok(match self {
            Self::Absent => None,
            Self::Shared { keys, values } => (keys.is_valid(at))
                .then(|| values.get(usize::try_from(keys.value(at)).ok()?)?.as_ref())
                .flatten()
                .map(Value::Shared),
            Self::Each(values) => {
                (values.get(at)).and_then(|text| text.as_ref().map(Value::Shared))
            }
            Self::Plain(texts) => texts
                .is_valid(at)
                .then(|| Value::Text(Cow::Borrowed(texts.value(at)))),
            Self::Times { unit, values } if values.is_valid(at) => {
                let value = values.value(at);
                let micros = match unit {
                    TimeUnit::Second => value.checked_mul(1_000_000),
                    TimeUnit::Millisecond => value.checked_mul(1_000),
                    TimeUnit::Microsecond => Some(value),
                    TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
                };
                let time = micros.and_then(DateTime::from_timestamp_micros);
                let misfit = || Misfit(value.to_string(), "a time that a calendar knows");
                Some(Value::Time(time.ok_or_else(misfit)?))
            }
            Self::Integers(values) => values.is_valid(at).then(|| Value::Number(values.value(at))),
            Self::Floats(values) if values.is_valid(at) && !values.value(at).is_nan() => {
                let value = values.value(at);
                // Up to 2^53 a float holds every whole number.
                if value.fract() != 0.0 || value.abs() > 9_007_199_254_740_992.0 {
                    return Err(Misfit(value.to_string(), "a whole number"));
                }
                #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
                Some(Value::Number(value as i64))
            }
            Self::Flags(values) => values.is_valid(at).then(|| Value::Flag(values.value(at))),
            Self::Times { .. } | Self::Floats(_) => None,
        })
    }
}

/// Stores every text once.
#[derive(Default)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    fn all(&mut self, texts: &StringArray) -> Vec<Option<Arc<str>>> {
        texts.iter().map(|text| Some(self.get(text?))).collect()
    }

    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = Arc::from(text);
        self.0.insert(Arc::clone(&new));
        new
    }
}
