//! Reads a column of any type as values of the expected kind. Pure.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array,
    StringArray,
};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, TimeUnit};
use arrow::error::ArrowError;
use chrono::DateTime;

use super::{ReadError, cast, data_type, dictionary, repeats};
use crate::model::state::columns::{Column, Kind, Value};

/// One column of a batch.
pub(super) enum Cells {
    Absent,
    /// Repeated texts, each stored once.
    Shared {
        keys: Int32Array,
        values: Vec<Option<Arc<str>>>,
    },
    Plain(StringArray),
    Times {
        unit: TimeUnit,
        values: Int64Array,
    },
    Integers(Int64Array),
    Floats(Float64Array),
    Flags(BooleanArray),
}

/// A value that does not fit its column, and what is expected.
pub(super) struct Misfit(pub String, pub &'static str);

impl Cells {
    pub(super) fn of(
        array: Option<&ArrayRef>,
        column: &Column,
        interner: &mut Interner,
    ) -> Result<Self, ReadError> {
        let Some(array) = array else {
            return Ok(Self::Absent);
        };
        let cells = match Self::read(array, column.kind, interner) {
            Ok(Some(_)) if array.null_count() == array.len() => Some(Self::Absent),
            cells => cells.ok().flatten(),
        };
        cells.ok_or_else(|| {
            let expected = match column.kind {
                Kind::Time => "timestamp",
                Kind::Int32 | Kind::Int64 => "whole numbers",
                Kind::Flag => "true or false",
                _ => "text",
            };
            let (name, found) = (column.name, array.data_type());
            ReadError::NotUnderstood(format!(
                "column '{name}' has type {found}, expected {expected}"
            ))
        })
    }

    /// `None` if a column of this type cannot have such values.
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
        let floats = || -> Result<Float64Array, ArrowError> {
            let numbers = cast(array, &DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            Ok(numbers.unary_opt(|number| Some(number).filter(|number| !number.is_nan())))
        };
        Ok(Some(match (kind, array.data_type()) {
            (_, DataType::Null) => Self::Absent,
            // A zone changes only how a time is shown, not its value; without one it is UTC.
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
            (_, DataType::Dictionary(_, _)) => Self::shared(array, interner),
            (kind, found) => {
                let texts: StringArray = if found.is_floating() {
                    let numbers = floats()?;
                    numbers
                        .iter()
                        .map(|number| Some(number?.to_string()))
                        .collect()
                } else if found.is_string() || found.is_integer() || found.is_binary() {
                    cast(array, &DataType::Utf8)?.as_string().clone()
                } else {
                    return Ok(None);
                };
                match repeats(kind) {
                    true => {
                        let texts: ArrayRef = Arc::new(texts);
                        Self::shared(&cast(&texts, &dictionary())?, interner)
                    }
                    false => Self::Plain(texts),
                }
            }
        }))
    }

    fn shared(array: &ArrayRef, interner: &mut Interner) -> Self {
        let dictionary = array.as_dictionary::<Int32Type>();
        let values = dictionary.values().as_string::<i32>().iter();
        Self::Shared {
            values: values.map(|text| Some(interner.get(text?))).collect(),
            keys: dictionary.keys().clone(),
        }
    }

    /// Passes the values of some rows to `take` in order, `None` for a null. Stops at the first misfit and returns its
    /// position.
    pub(super) fn each(
        &self,
        rows: Range<usize>,
        mut take: impl FnMut(usize, Option<Value<'_>>) -> Result<(), Misfit>,
    ) -> Result<(), (usize, Misfit)> {
        // Matches the kind once, not for each value.
        macro_rules! all {
            (|$at:ident| $value:expr) => {
                for $at in rows {
                    let value: Result<Option<Value<'_>>, Misfit> = $value;
                    value
                        .and_then(|value| take($at, value))
                        .map_err(|misfit| ($at, misfit))?;
                }
            };
        }
        match self {
            Self::Absent => all!(|at| Ok(None)),
            Self::Shared { keys, values } => all!(|at| {
                let key = cell(keys, at).and_then(|key| usize::try_from(key).ok());
                let value = key.and_then(|key| values.get(key)?.as_ref());
                Ok(value.map(Value::Shared))
            }),
            Self::Plain(texts) => all!(|at| {
                let text = cell(texts, at).map(Cow::Borrowed);
                Ok(text.map(Value::Text))
            }),
            Self::Times { unit, values } => {
                all!(|at| cell(values, at).map(|value| time(value, *unit)).transpose())
            }
            Self::Integers(values) => all!(|at| Ok(cell(values, at).map(Value::Number))),
            Self::Floats(values) => all!(|at| cell(values, at).map(integer).transpose()),
            Self::Flags(values) => all!(|at| Ok(cell(values, at).map(Value::Flag))),
        }
        Ok(())
    }
}

fn cell<A: ArrayAccessor>(array: A, at: usize) -> Option<A::Item> {
    array.is_valid(at).then(|| array.value(at))
}

fn time(value: i64, unit: TimeUnit) -> Result<Value<'static>, Misfit> {
    let micros = match unit {
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1_000),
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value.div_euclid(1_000)),
    };
    let time = micros.and_then(DateTime::from_timestamp_micros);
    let misfit = || Misfit(value.to_string(), "a valid time");
    time.map(Value::Time).ok_or_else(misfit)
}

fn integer(value: f64) -> Result<Value<'static>, Misfit> {
    // Up to 2^53 a float represents every whole number.
    if value.fract() != 0.0 || value.abs() > 9_007_199_254_740_992.0 {
        return Err(Misfit(value.to_string(), "a whole number"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "an integer in range")]
    Ok(Value::Number(value as i64))
}

/// A store of texts that keeps each once.
#[derive(Default)]
pub(super) struct Interner(HashSet<Arc<str>>);

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
