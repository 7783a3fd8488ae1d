//! Rows to an Arrow batch. Pure.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Int64Builder, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::{cast, data_type};
use crate::model::state::TaskRow;
use crate::model::state::columns::{COLUMNS, Kind, Value};

/// Makes a batch of rows. `schema` is [`super::schema_with`] of the columns in `other_columns`.
pub fn batch(
    rows: &[&TaskRow],
    other_columns: Option<&RecordBatch>,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let mut builders: Vec<Builder> = COLUMNS
        .iter()
        .map(|column| Builder::of(column.kind, rows.len()))
        .collect();
    for row in rows {
        for (builder, column) in builders.iter_mut().zip(COLUMNS) {
            builder.push((column.get)(row));
        }
    }
    let columns = builders.into_iter().map(Builder::finish);
    let mut columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    if let Some(other_columns) = other_columns {
        let lines: UInt32Array = rows.iter().map(|row| row.other_columns).collect();
        for column in other_columns.columns() {
            columns.push(take(column.as_ref(), &lines, None)?);
        }
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// One column that grows.
enum Builder {
    Text(StringBuilder),
    /// Numbers and times, which become the column's own type at the end.
    Number(Int64Builder, DataType),
    Flag(BooleanBuilder),
}

impl Builder {
    fn of(kind: Kind, rows: usize) -> Self {
        let bytes = if kind == Kind::UniqueText { 40 } else { 12 };
        match data_type(kind) {
            DataType::Utf8 => Self::Text(StringBuilder::with_capacity(rows, rows * bytes)),
            DataType::Boolean => Self::Flag(BooleanBuilder::with_capacity(rows)),
            other => Self::Number(Int64Builder::with_capacity(rows), other),
        }
    }

    fn push(&mut self, value: Option<Value<'_>>) {
        let value = value.as_ref();
        match self {
            Self::Text(builder) => builder.append_option(value.and_then(Value::text)),
            Self::Number(builder, _) => builder.append_option(value.and_then(|value| {
                let micros = value.time().map(|time| time.timestamp_micros());
                micros.or(value.number())
            })),
            Self::Flag(builder) => builder.append_option(value.and_then(Value::flag)),
        }
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Number(mut builder, to) => {
                let numbers: ArrayRef = Arc::new(builder.finish());
                cast(&numbers, &to)?
            }
            Self::Flag(mut builder) => Arc::new(builder.finish()),
        })
    }
}
