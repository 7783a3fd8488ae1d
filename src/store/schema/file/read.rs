//! Reads rows and metadata from the bytes of a Parquet file.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};

use super::super::decode::Decoder;
use super::super::{Digest, FORMAT_VERSION, ReadError, SCHEME, dictionary, repeats};
use super::{
    Contents, GENERATION, GROUP_ROWS, HASH, MANY_ROWS, Take, VERSION, foreign, own_keys,
    parse_metadata, pipeline, undecodable,
};
use crate::model::state::columns::COLUMNS;
use crate::model::state::table::{Identity, Metadata};

/// The caller must catch a panic of the Parquet reader.
pub(super) fn read_unguarded(bytes: bytes::Bytes) -> Result<Contents, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Damaged("the file is empty (0 bytes)".to_owned()));
    }
    let options = ArrowReaderOptions::new();
    let footer = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(|error| {
        ReadError::Damaged(format!("it is truncated or not a Parquet file ({error})"))
    })?;
    let file = footer.metadata().file_metadata();
    let keys = own_keys(file.key_value_metadata());
    let hash = stored_hash(&footer, &keys)?;
    let is_own = hash.is_some();

    let mut decoder = Decoder::new(footer.schema(), is_own)?;
    let schema = if is_own {
        with_dictionaries(footer.schema())
    } else {
        Arc::clone(footer.schema())
    };
    let length = bytes.len();
    let rows_expected = usize::try_from(file.num_rows()).unwrap_or(0);
    let metadata = ArrowReaderMetadata::try_new(
        Arc::clone(footer.metadata()),
        options.with_schema(Arc::clone(&schema)),
    )
    .map_err(broken)?;
    let identity = match &hash {
        Some(hash) => Identity::Ours {
            generation: keys
                .get(GENERATION)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            hash: hash.clone(),
        },
        None => foreign(&bytes),
    };
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata)
        .with_batch_size(GROUP_ROWS)
        .build()
        .map_err(broken)?;

    // The number may be damaged: limited to what fits into the file.
    let mut rows = Vec::with_capacity(rows_expected.min(length / 16));
    let mut others = Vec::new();
    let mut take = |batch: &RecordBatch| {
        decoder.append(batch, &mut rows)?;
        others.extend(decoder.part_of_others(batch).map_err(damaged)?);
        Ok(())
    };
    // Keeps other columns even without rows.
    take(&RecordBatch::new_empty(Arc::clone(&schema)))?;
    let digest = is_own.then(|| Digest::new(&schema));
    let digest = pipeline(
        rows_expected >= MANY_ROWS,
        (reader, digest),
        unpack,
        take,
        undecodable,
    )?;

    let mut meta = Metadata::default();
    if let (Some(digest), Some(hash)) = (digest, hash) {
        if !is_hash_of(&hash, digest, &keys) {
            return Err(ReadError::Damaged(format!(
                "its rows do not match their stored hash (written by {})",
                file.created_by().unwrap_or("an unknown program")
            )));
        }
        meta = parse_metadata(&keys)?;
    }
    let schema = others.first().map(RecordBatch::schema);
    let other_columns = schema.map(|schema| concat_batches(&schema, &others));
    Ok(Contents {
        rows,
        other_columns: other_columns.transpose().map_err(damaged)?,
        meta,
        warnings: decoder.warnings(),
        identity,
    })
}

/// The stored hash of the rows; `None` if another program wrote the file.
fn stored_hash(
    footer: &ArrowReaderMetadata,
    keys: &BTreeMap<String, String>,
) -> Result<Option<String>, ReadError> {
    if keys.is_empty() {
        let has_own_columns = footer.schema().field_with_name("submission_id").is_ok();
        let writer = footer.metadata().file_metadata().created_by();
        return match has_own_columns && writer.is_none() {
            true => Err(ReadError::Damaged("its metadata is missing".to_owned())),
            false => Ok(None),
        };
    }
    let missing = || ReadError::Damaged("the hash of its rows is missing".to_owned());
    keys.get(HASH).cloned().ok_or_else(missing).map(Some)
}

/// True if the rows have the stored hash, or if this program cannot compute such a hash.
fn is_hash_of(hash: &str, digest: Digest, keys: &BTreeMap<String, String>) -> bool {
    let (scheme, _) = hash.split_once(':').unwrap_or_default();
    let version = keys.get(VERSION).and_then(|text| text.parse::<u32>().ok());
    // A later format may use another hash, which this program cannot check.
    let is_newer = version.is_some_and(|version| version > FORMAT_VERSION);
    let mut keys = keys.clone();
    keys.remove(HASH);
    (is_newer && scheme != SCHEME) || digest.finish(&Vec::from_iter(keys)) == hash
}

/// Unpacks and hashes batches, and passes each on before it is hashed.
fn unpack(
    (reader, mut digest): (ParquetRecordBatchReader, Option<Digest>),
    take: Take<'_, ReadError>,
) -> Result<Option<Digest>, ReadError> {
    for batch in reader {
        let batch = batch.map_err(broken)?;
        if !take(&batch)? {
            break;
        }
        if let Some(digest) = &mut digest {
            digest.update(&batch).map_err(damaged)?;
        }
    }
    Ok(digest)
}

/// Reads repeated texts as dictionaries, so that each is created once and shared.
fn with_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        let is_text = *field.data_type() == DataType::Utf8;
        let mut repeated = COLUMNS.iter().filter(|column| repeats(column.kind));
        match is_text && repeated.any(|column| column.name == field.name()) {
            true => Arc::new(field.as_ref().clone().with_data_type(dictionary())),
            false => Arc::clone(field),
        }
    });
    let metadata = schema.metadata().clone();
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        metadata,
    ))
}

fn damaged(error: ArrowError) -> ReadError {
    ReadError::Damaged(error.to_string())
}

fn broken(error: impl std::error::Error) -> ReadError {
    let text = error.to_string();
    // The library's message for a codec that was not built in, which is not damage.
    match text.contains("Disabled feature") {
        true => ReadError::NotUnderstood(format!(
            "unsupported compression ({text}): write it with snappy, gzip, lz4, zstd or none"
        )),
        false => ReadError::Damaged(text),
    }
}
