//! Writes rows and metadata as the bytes of a Parquet file.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, Int64Builder, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::super::digest::Digest;
use super::super::{cast, data_type, schema_with};
use super::{GROUP_ROWS, HASH, MANY_ROWS, Take, pairs_of, pipeline};
use crate::model::state::TaskRow;
use crate::model::state::columns::{COLUMNS, Kind, Value};
use crate::model::state::table::{Identity, Metadata};

const CREATED_BY: &str = concat!("snbb-scheduler version ", env!("CARGO_PKG_VERSION"));

/// The bytes of a file. Format version and hash are added to `meta`.
pub fn write(
    rows: &[&TaskRow],
    other_columns: Option<&RecordBatch>,
    meta: &Metadata,
) -> Result<(Vec<u8>, Identity), ParquetError> {
    let schema = Arc::new(schema_with(
        other_columns.map(RecordBatch::schema).as_deref(),
    ));
    let pairs = pairs_of(meta)?;
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties()))?;
    let encode = |mut digest: Digest, take: Take<'_, ParquetError>| {
        for rows in rows.chunks(GROUP_ROWS) {
            let batch = batch_of(rows, other_columns, &schema)?;
            digest.update(&batch)?;
            if !take(&batch)? {
                break;
            }
        }
        Ok(digest)
    };
    let digest = pipeline(
        rows.len() >= MANY_ROWS,
        Digest::new(&schema),
        encode,
        |batch| writer.write(batch),
        || ParquetError::General("a thread panicked".to_owned()),
    )?;
    let hash = digest.finish(&pairs);
    for (key, value) in pairs {
        writer.append_key_value_metadata(KeyValue::new(key, value));
    }
    writer.append_key_value_metadata(KeyValue::new(HASH.to_owned(), hash.clone()));
    let identity = Identity::Ours {
        generation: meta.generation,
        hash,
    };
    Ok((writer.into_inner()?, identity))
}

/// Zstandard makes files half as large as Snappy, and most readers support both. Every reader
/// supports plain values and dictionaries.
fn properties() -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for column in COLUMNS {
        let path = ColumnPath::from(column.name);
        properties = match column.kind {
            Kind::UniqueText | Kind::JobId | Kind::Time => {
                properties.set_column_dictionary_enabled(path, false)
            }
            Kind::Int32 | Kind::Int64 | Kind::Flag => properties,
            _ => properties.set_column_dictionary_page_size_limit(path, 16 << 20),
        };
    }
    properties.build()
}

/// `schema` is [`super::schema_with`] of the columns in `other_columns`.
fn batch_of(
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

/// A growing column.
enum Builder {
    Text(StringBuilder),
    /// Numbers and times, cast to the column's type at the end.
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
