//! Rows to an Arrow batch. Pure.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

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
    let mut columns: Vec<ArrayRef> = builders.into_iter().map(Builder::finish).collect();
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
    Time(TimestampMicrosecondBuilder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn of(kind: Kind, rows: usize) -> Self {
        match kind {
            Kind::Time => {
                Self::Time(TimestampMicrosecondBuilder::with_capacity(rows).with_timezone("UTC"))
            }
            Kind::Int32 => Self::Int32(Int32Builder::with_capacity(rows)),
            Kind::Int64 => Self::Int64(Int64Builder::with_capacity(rows)),
            Kind::Flag => Self::Flag(BooleanBuilder::with_capacity(rows)),
            Kind::UniqueText => Self::Text(StringBuilder::with_capacity(rows, rows * 40)),
            _ => Self::Text(StringBuilder::with_capacity(rows, rows * 12)),
        }
    }

    fn push(&mut self, value: Option<Value<'_>>) {
        let value = value.as_ref();
        match self {
            Self::Text(builder) => builder.append_option(value.and_then(Value::text)),
            Self::Time(builder) => {
                let time = value.and_then(Value::time);
                builder.append_option(time.map(|time| time.timestamp_micros()));
            }
            Self::Int32(builder) => {
                let number = value.and_then(Value::number);
                builder.append_option(number.and_then(|number| i32::try_from(number).ok()));
            }
            Self::Int64(builder) => builder.append_option(value.and_then(Value::number)),
            Self::Flag(builder) => builder.append_option(value.and_then(Value::flag)),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Int32(mut builder) => Arc::new(builder.finish()),
            Self::Int64(mut builder) => Arc::new(builder.finish()),
            Self::Flag(mut builder) => Arc::new(builder.finish()),
        }
    }
}
