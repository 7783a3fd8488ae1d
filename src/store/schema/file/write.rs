//! From rows and metadata to the bytes of a Parquet file.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::super::digest::Digest;
use super::super::keys::{HASH, pairs_of};
use super::super::{encode, schema_with};
use super::pipeline::{self, Take};
use super::{GROUP_ROWS, MANY_ROWS};
use crate::model::state::TaskRow;
use crate::model::state::columns::{COLUMNS, Kind};
use crate::model::state::table::{Identity, Metadata};

const CREATED_BY: &str = concat!("snbb-scheduler version ", env!("CARGO_PKG_VERSION"));

/// Makes the bytes of a file. `meta` says how it is to be; format version and hash are added.
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
            let batch = encode::batch(rows, other_columns, &schema)?;
            digest.update(&batch)?;
            if !take(&batch)? {
                break;
            }
        }
        Ok(digest)
    };
    let digest = pipeline::run(
        rows.len() >= MANY_ROWS,
        Digest::new(&schema),
        encode,
        |batch| writer.write(batch),
        || ParquetError::General("a thread has panicked".to_owned()),
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

/// Snappy would be read as widely, but Zstandard makes files half as large. Plain values and
/// dictionaries are the encodings that every reader knows.
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
