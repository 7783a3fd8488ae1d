//! Rows and metadata to the bytes of a Parquet file, and back.
//!
//! Damaged bytes end in an error, whatever they are: the row hash finds what Parquet lets through,
//! and a panic of its reader is caught.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _};
use std::sync::{Arc, mpsc};
use std::thread::Builder;

use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;
use sha2::{Digest as _, Sha256};

use super::decode::{Decoder, Layout, part_of_others};
use super::digest::{self, Digest};
use super::guard::guarded;
use super::keys::{GENERATION, HASH, VERSION, own_keys, pairs_of, parse_metadata};
use super::{COLUMNS, FORMAT_VERSION, Kind, ReadError, encode, is_own, schema_with};
use crate::hex::hex;
use crate::state::TaskRow;
use crate::state::table::Metadata;

/// Holds what a file contains.
#[derive(Debug, Clone)]
pub struct Contents {
    pub rows: Vec<TaskRow>,
    pub other_columns: Option<RecordBatch>,
    pub meta: Metadata,
    pub warnings: Vec<String>,
    pub identity: Identity,
}

/// Tells one state of a file from every other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    Ours {
        generation: u64,
        hash: String,
    },
    /// Of another program: its length and the SHA-256 of its bytes.
    Foreign {
        length: u64,
        sha256: String,
    },
}

const CREATED_BY: &str = concat!("snbb-scheduler version ", env!("CARGO_PKG_VERSION"));

/// Rows per row group and per batch: with both equal, the reader can hand dictionaries on.
const GROUP_ROWS: usize = 128 * 1024;
/// From here on a second thread is worth its start.
const MANY_ROWS: usize = 20_000;

/// Reads a whole file.
pub fn read(bytes: bytes::Bytes) -> Result<Contents, ReadError> {
    guarded(|| read_unguarded(bytes))
}

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
    let mut writer =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties(&schema)))?;
    let mut digest = Digest::new(&schema);
    let encode = |rows: &[&TaskRow], digest: &mut Digest| -> Result<RecordBatch, ParquetError> {
        let batch = encode::batch(rows, other_columns, &schema)?;
        digest.update(&batch)?;
        Ok(batch)
    };
    if rows.len() < MANY_ROWS {
        let batch = encode(rows, &mut digest)?;
        writer.write(&batch)?;
    } else {
        std::thread::scope(|scope| {
            let (sender, batches) = mpsc::sync_channel(1);
            let (hand_over, handed) = mpsc::channel::<&mut Digest>();
            let encoding = Builder::new().spawn_scoped(scope, move || {
                let Ok(digest) = handed.recv() else {
                    return Ok(());
                };
                for rows in rows.chunks(GROUP_ROWS) {
                    let batch = encode(rows, digest)?;
                    if sender.send(batch).is_err() {
                        break;
                    }
                }
                Ok::<(), ParquetError>(())
            });
            let Ok(encoding) = encoding else {
                return rows
                    .chunks(GROUP_ROWS)
                    .try_for_each(|rows| writer.write(&encode(rows, &mut digest)?));
            };
            // It fails only if the thread has ended, and that is found out below.
            let _ = hand_over.send(&mut digest);
            for batch in batches {
                writer.write(&batch)?;
            }
            encoding
                .join()
                .map_err(|_| ParquetError::General("a thread has panicked".to_owned()))?
        })?;
    }
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

/// Looks which file this is, without reading its rows if it is ours. None: it is neither ours nor
/// Parquet, or damaged.
pub fn identify(file: &File) -> std::io::Result<Identity> {
    if let Some((generation, hash)) = guarded(|| Ok(ours(file))).ok().flatten() {
        return Ok(Identity::Ours { generation, hash });
    }
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut file = BufReader::new(file);
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut length = 0;
    // Part by part: it may be larger than the memory.
    loop {
        let part = file.fill_buf()?;
        if part.is_empty() {
            break;
        }
        hash.update(part);
        let size = part.len();
        length += size as u64;
        file.consume(size);
    }
    Ok(Identity::Foreign {
        length,
        sha256: hex(&hash.finalize()),
    })
}

fn ours(file: &impl ChunkReader) -> Option<(u64, String)> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file).ok()?;
    let keys = own_keys(metadata.file_metadata().key_value_metadata());
    Some((keys.get(GENERATION)?.parse().ok()?, keys.get(HASH)?.clone()))
}

/// True if the rows have the hash that is stored with them, as far as this program can tell.
fn is_hash_of(hash: &str, digest: Digest, keys: &BTreeMap<String, String>) -> bool {
    let (scheme, _) = hash.split_once(':').unwrap_or_default();
    let version = keys.get(VERSION).and_then(|text| text.parse::<u32>().ok());
    // A later format may hash otherwise; then its hash says nothing to this program.
    let is_newer = version.is_some_and(|version| version > FORMAT_VERSION);
    let pairs: Vec<_> = keys
        .iter()
        .filter(|(key, _)| *key != HASH)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (is_newer && scheme != digest::SCHEME) || digest.finish(&pairs) == hash
}

fn identity_of_others(bytes: &[u8]) -> Identity {
    Identity::Foreign {
        length: bytes.len() as u64,
        sha256: hex(&Sha256::digest(bytes)),
    }
}

fn read_unguarded(bytes: bytes::Bytes) -> Result<Contents, ReadError> {
    if bytes.is_empty() {
        return Err(ReadError::Damaged("the file is empty (0 bytes)".to_owned()));
    }
    let options = ArrowReaderOptions::new();
    let footer = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(not_parquet)?;
    let file = footer.metadata().file_metadata();
    let keys = own_keys(file.key_value_metadata());
    let is_own = !keys.is_empty();
    let has_own_columns = footer.schema().field_with_name("submission_id").is_ok();
    if !is_own && has_own_columns && file.created_by().is_none() {
        return Err(ReadError::Damaged("its metadata is gone".to_owned()));
    }
    let hash = keys.get(HASH).cloned();
    if is_own && hash.is_none() {
        return Err(ReadError::Damaged(
            "its hash of the rows is missing".to_owned(),
        ));
    }

    let layout = Layout::of(footer.schema())?;
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
        None => identity_of_others(&bytes),
    };
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes, metadata)
        .with_batch_size(GROUP_ROWS)
        .build()
        .map_err(broken)?;

    let mut found = Found {
        decoder: Decoder::new(layout, is_own),
        // The number may be damaged: no more than such a file can hold.
        rows: Vec::with_capacity(rows_expected.min(length / 16)),
        other_columns: Vec::new(),
    };
    // Columns stay also if there is no row.
    found.append(&RecordBatch::new_empty(Arc::clone(&schema)))?;
    let digest = is_own.then(|| Digest::new(&schema));
    let digest = if rows_expected < MANY_ROWS {
        read_here(reader, digest, &mut found)?
    } else {
        read_with_thread(reader, digest, &mut found)?
    };

    let mut meta = Metadata::default();
    if let (Some(digest), Some(hash)) = (digest, hash) {
        if !is_hash_of(&hash, digest, &keys) {
            return Err(ReadError::Damaged(format!(
                "its rows do not have the hash that is stored with them (written by {})",
                file.created_by().unwrap_or("an unknown program")
            )));
        }
        meta = parse_metadata(&keys)?;
    }
    let schema = found.other_columns.first().map(RecordBatch::schema);
    let other_columns = schema
        .map(|schema| concat_batches(&schema, &found.other_columns))
        .transpose()
        .map_err(|error| ReadError::Damaged(error.to_string()))?;
    Ok(Contents {
        rows: found.rows,
        other_columns,
        meta,
        warnings: found.decoder.warnings(),
        identity,
    })
}

struct Found {
    decoder: Decoder,
    rows: Vec<TaskRow>,
    other_columns: Vec<RecordBatch>,
}

impl Found {
    fn append(&mut self, batch: &RecordBatch) -> Result<(), ReadError> {
        self.decoder.append(batch, &mut self.rows)?;
        if let Some(part) = part_of_others(batch, &self.decoder)
            .map_err(|error| ReadError::Damaged(error.to_string()))?
        {
            self.other_columns.push(part);
        }
        Ok(())
    }
}

fn read_here(
    reader: ParquetRecordBatchReader,
    mut digest: Option<Digest>,
    found: &mut Found,
) -> Result<Option<Digest>, ReadError> {
    for batch in reader {
        let batch = batch.map_err(broken)?;
        if let Some(digest) = &mut digest {
            digest
                .update(&batch)
                .map_err(|error| ReadError::Damaged(error.to_string()))?;
        }
        found.append(&batch)?;
    }
    Ok(digest)
}

/// Unpacks and hashes in a second thread while this one makes rows; all in this one if the system
/// gives no thread.
fn read_with_thread(
    reader: ParquetRecordBatchReader,
    digest: Option<Digest>,
    found: &mut Found,
) -> Result<Option<Digest>, ReadError> {
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(1);
        let (hand_over, handed) = mpsc::channel::<(ParquetRecordBatchReader, Option<Digest>)>();
        let unpacking = Builder::new().spawn_scoped(scope, move || {
            guarded(|| {
                let Ok((reader, mut digest)) = handed.recv() else {
                    return Ok(None);
                };
                for batch in reader {
                    let batch = batch.map_err(broken)?;
                    if sender.send(batch.clone()).is_err() {
                        break;
                    }
                    if let Some(digest) = &mut digest {
                        digest
                            .update(&batch)
                            .map_err(|error| ReadError::Damaged(error.to_string()))?;
                    }
                }
                Ok(digest)
            })
        });
        let Ok(unpacking) = unpacking else {
            return read_here(reader, digest, found);
        };
        // It fails only if the thread has ended, and that is found out below.
        let _ = hand_over.send((reader, digest));
        let mut outcome = Ok(());
        for batch in batches {
            outcome = found.append(&batch);
            if outcome.is_err() {
                break;
            }
        }
        let digest = unpacking
            .join()
            .unwrap_or_else(|_| Err(ReadError::Damaged("its pages cannot be decoded".to_owned())));
        outcome?;
        digest
    })
}

/// Has texts that repeat read as dictionaries, so that each is made once and shared.
fn with_dictionaries(schema: &SchemaRef) -> SchemaRef {
    let repeats = |field: &Field| {
        *field.data_type() == DataType::Utf8
            && COLUMNS
                .iter()
                .any(|(name, kind)| name == field.name() && *kind == Kind::Text)
    };
    let fields: Vec<Arc<Field>> = schema
        .fields()
        .iter()
        .map(|field| {
            if repeats(field) {
                let kind =
                    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                Arc::new(field.as_ref().clone().with_data_type(kind))
            } else {
                Arc::clone(field)
            }
        })
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Snappy would be read as widely, but Zstandard makes files half as large. Plain values and
/// dictionaries are the encodings that every reader knows.
fn properties(schema: &Schema) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for (name, kind) in COLUMNS {
        let path = ColumnPath::from(name);
        properties = match kind {
            Kind::Text => properties.set_column_dictionary_page_size_limit(path, 16 << 20),
            Kind::UniqueText | Kind::Time => properties.set_column_dictionary_enabled(path, false),
            Kind::Int32 | Kind::Int64 | Kind::Flag => properties,
        };
    }
    debug_assert!(
        COLUMNS
            .iter()
            .all(|(name, _)| schema.index_of(name).is_ok() && is_own(name))
    );
    properties.build()
}

fn not_parquet(error: ParquetError) -> ReadError {
    ReadError::Damaged(format!("it is cut or no Parquet file ({error})"))
}

fn broken(error: impl std::error::Error) -> ReadError {
    let text = error.to_string();
    // The library says so of a codec that was not built in, which is no damage.
    match text.contains("Disabled feature") {
        true => ReadError::Compression(text),
        false => ReadError::Damaged(text),
    }
}
