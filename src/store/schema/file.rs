//! Converts rows and metadata to the bytes of a Parquet file, and back.
//!
//! Any damage is an error: the row hash finds what Parquet misses, and a panic of its reader is
//! caught.

mod read;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek as _;
use std::sync::{Arc, mpsc};

use arrow::array::{ArrayRef, BooleanBuilder, Int64Builder, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::ChunkReader;
use parquet::schema::types::ColumnPath;
use serde::de::DeserializeOwned;

use super::{Digest, FORMAT_VERSION, ReadError, cast, data_type, schema_with};
use crate::base::durable;
use crate::base::parallel::caught;
use crate::base::regular::require_regular;
use crate::base::text::sha256;
use crate::model::state::TaskRow;
use crate::model::state::columns::{COLUMNS, Kind, Value};
use crate::model::state::table::{Identity, Metadata};

/// The contents of a file.
#[derive(Debug, Clone)]
pub struct Contents {
    pub rows: Vec<TaskRow>,
    pub other_columns: Option<RecordBatch>,
    pub meta: Metadata,
    pub warnings: Vec<String>,
    pub identity: Identity,
}

/// Rows per row group and per batch: with equal sizes, the reader can pass dictionaries on.
const GROUP_ROWS: usize = 128 * 1024;
/// From this size on, a second thread is worth its start.
const MANY_ROWS: usize = 20_000;

/// Reads any bytes; a panic of the reader becomes an error.
pub fn read(bytes: bytes::Bytes) -> Result<Contents, ReadError> {
    caught(|| read::read_unguarded(bytes)).unwrap_or_else(|_| Err(undecodable()))
}

fn undecodable() -> ReadError {
    ReadError::Damaged("its pages cannot be decoded".to_owned())
}

/// Identifies a file, without reading its rows if it is ours.
pub fn identify(file: &File) -> std::io::Result<Identity> {
    if let Some((generation, hash)) = caught(|| ours(file)).ok().flatten() {
        return Ok(Identity::Ours { generation, hash });
    }
    require_regular(file)?;
    (&*file).rewind()?;
    Ok(foreign(&durable::content(file)?))
}

fn foreign(bytes: &[u8]) -> Identity {
    Identity::Foreign {
        length: bytes.len() as u64,
        sha256: sha256(bytes),
    }
}

fn ours(file: &impl ChunkReader) -> Option<(u64, String)> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file).ok()?;
    let keys = own_keys(metadata.file_metadata().key_value_metadata());
    Some((keys.get(GENERATION)?.parse().ok()?, keys.get(HASH)?.clone()))
}

/// Takes a batch; returns false to stop.
type Take<'a, E> = &'a mut dyn FnMut(&RecordBatch) -> Result<bool, E>;

/// Makes batches from `start` in a second thread while this one takes them. Uses only this thread for a small table,
/// or if no thread can be started.
fn pipeline<S: Send, R: Send, E: Send>(
    is_large: bool,
    start: S,
    make: impl Fn(S, Take<'_, E>) -> Result<R, E> + Sync,
    mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
    panicked: impl FnOnce() -> E,
) -> Result<R, E> {
    let mut take = |batch: &RecordBatch| take(batch).map(|()| true);
    if !is_large {
        return make(start, &mut take);
    }
    std::thread::scope(|scope| {
        let (sender, batches) = mpsc::sync_channel(1);
        let (hand_over, handed) = mpsc::channel();
        let make = &make;
        let making = std::thread::Builder::new().spawn_scoped(scope, move || {
            let mut send = |batch: &RecordBatch| Ok(sender.send(batch.clone()).is_ok());
            caught(|| Some(make(handed.recv().ok()?, &mut send)))
        });
        let Ok(making) = making else {
            return make(start, &mut take);
        };
        // Fails only if the thread has ended, which is handled below.
        let _ = hand_over.send(start);
        let taken = batches.iter().try_for_each(|batch| take(&batch).map(drop));
        drop(batches);
        let made = making.join().ok().and_then(Result::ok).flatten();
        taken?;
        made.unwrap_or_else(|| Err(panicked()))
    })
}

const CREATED_BY: &str = concat!("snbb-scheduler version ", env!("CARGO_PKG_VERSION"));

/// The bytes of a file. Format version and hash are added to `meta`.
pub fn write(
    rows: &[TaskRow],
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
    rows: &[TaskRow],
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

/// Keys of the file's metadata. All begin with [`PREFIX`].
const PREFIX: &str = "snbb.";
const VERSION: &str = "snbb.format_version";
const GENERATION: &str = "snbb.generation";
const PROJECT: &str = "snbb.project";
const OWNER: &str = "snbb.owner_uid";
const CLUSTER: &str = "snbb.cluster";
const PATH: &str = "snbb.path";
const BASELINES: &str = "snbb.baselines";
const BEGUN_ANEW: &str = "snbb.begun_anew";
const HASH: &str = "snbb.hash";

fn own_keys(metadata: Option<&Vec<KeyValue>>) -> BTreeMap<String, String> {
    metadata
        .into_iter()
        .flatten()
        .filter(|pair| pair.key.starts_with(PREFIX))
        .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()))
        .collect()
}

/// The pairs to write, without the hash.
fn pairs_of(meta: &Metadata) -> Result<Vec<(String, String)>, ParquetError> {
    let baselines = serde_json::to_string(&meta.baselines)
        .map_err(|error| ParquetError::External(Box::new(error)))?;
    let pairs = [
        (VERSION, Some(FORMAT_VERSION.to_string())),
        (GENERATION, Some(meta.generation.to_string())),
        (BASELINES, Some(baselines)),
        (PROJECT, meta.project.clone()),
        (CLUSTER, meta.cluster.clone()),
        (PATH, meta.path.clone()),
        (OWNER, meta.owner_uid.map(|uid| uid.to_string())),
        (BEGUN_ANEW, meta.begun_anew.map(|at| at.to_string())),
    ];
    let pairs = pairs.into_iter();
    Ok(pairs
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect())
}

fn parse_metadata(keys: &BTreeMap<String, String>) -> Result<Metadata, ReadError> {
    Ok(Metadata {
        format_version: parse(keys, VERSION)?.ok_or_else(|| bad(VERSION, ""))?,
        generation: parse(keys, GENERATION)?.ok_or_else(|| bad(GENERATION, ""))?,
        project: keys.get(PROJECT).cloned(),
        owner_uid: parse(keys, OWNER)?,
        cluster: keys.get(CLUSTER).cloned(),
        path: keys.get(PATH).cloned(),
        baselines: parse(keys, BASELINES)?.unwrap_or_default(),
        begun_anew: parse(keys, BEGUN_ANEW)?,
    })
}

/// Numbers and counts have the same form in JSON.
fn parse<T: DeserializeOwned>(
    keys: &BTreeMap<String, String>,
    key: &str,
) -> Result<Option<T>, ReadError> {
    let text = keys.get(key);
    let parsed = text.map(|text| serde_json::from_str(text).map_err(|_| bad(key, text)));
    parsed.transpose()
}

fn bad(key: &str, value: &str) -> ReadError {
    ReadError::Damaged(format!("its metadata has {key} = '{value}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The metadata of a file with version and generation 1.
    fn parsed(pairs: &[(&str, &str)]) -> Result<Metadata, ReadError> {
        let all = [(VERSION, "1"), (GENERATION, "1")];
        let all = all.iter().chain(pairs);
        parse_metadata(
            &all.map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn attack_a_state_remembers_its_cluster_and_its_path() {
        let meta = parsed(&[(CLUSTER, "alpha"), (PATH, "/data/state.parquet")]).unwrap();
        assert_eq!(meta.cluster.as_deref(), Some("alpha"));
        assert_eq!(meta.path.as_deref(), Some("/data/state.parquet"));
        let pairs: BTreeMap<String, String> = pairs_of(&meta).unwrap().into_iter().collect();
        assert_eq!(parse_metadata(&pairs).unwrap(), meta);
        let before = parsed(&[]).unwrap();
        assert_eq!((before.cluster, before.path), (None, None));
    }

    #[test]
    fn a_state_that_was_started_anew_is_marked() {
        let counts = (BASELINES, r#"{"sessions":4}"#);
        let meta = parsed(&[counts, (BEGUN_ANEW, "1700000000")]).unwrap();
        assert_eq!(meta.begun_anew, Some(1_700_000_000));
        assert_eq!(meta.baselines, [("sessions".to_owned(), 4)].into());
        let pairs: BTreeMap<String, String> = pairs_of(&meta).unwrap().into_iter().collect();
        assert_eq!(parse_metadata(&pairs).unwrap(), meta);

        assert_eq!(parsed(&[]).unwrap().begun_anew, None);
        assert!(parsed(&[(BEGUN_ANEW, "yesterday")]).is_err());
    }
}
