//! Rows and metadata to the bytes of a Parquet file, and back.
//!
//! Damaged bytes end in an error, whatever they are: the row hash finds what Parquet lets through,
//! and a panic of its reader is caught.

mod pipeline;
mod read;
mod write;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _};

use arrow::record_batch::RecordBatch;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::reader::ChunkReader;
use sha2::{Digest as _, Sha256};

pub use write::write;

use super::ReadError;
use super::keys::{GENERATION, HASH, own_keys};
use crate::base::hex::hex;
use crate::base::threads::caught;
use crate::model::state::TaskRow;
use crate::model::state::table::{Identity, Metadata};

/// Holds what a file contains.
#[derive(Debug, Clone)]
pub struct Contents {
    pub rows: Vec<TaskRow>,
    pub other_columns: Option<RecordBatch>,
    pub meta: Metadata,
    pub warnings: Vec<String>,
    pub identity: Identity,
}

/// Rows per row group and per batch: with both equal, the reader can hand dictionaries on.
const GROUP_ROWS: usize = 128 * 1024;
/// From here on a second thread is worth its start.
const MANY_ROWS: usize = 20_000;

/// Reads a whole file, which may hold anything: a panic of the reader becomes an error.
pub fn read(bytes: bytes::Bytes) -> Result<Contents, ReadError> {
    caught(|| read::read_unguarded(bytes)).unwrap_or_else(|_| Err(undecodable()))
}

fn undecodable() -> ReadError {
    ReadError::Damaged("its pages cannot be decoded".to_owned())
}

/// Looks which file this is, without reading its rows if it is ours. None: it is neither ours nor
/// Parquet, or damaged.
pub fn identify(file: &File) -> std::io::Result<Identity> {
    if let Some((generation, hash)) = caught(|| ours(file)).ok().flatten() {
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
