//! Converts rows and metadata to the bytes of a Parquet file, and back.
//!
//! Any damage is an error: the row hash finds what Parquet misses, and a panic of its reader is
//! caught.

mod read;
mod write;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _};
use std::sync::mpsc;
use std::thread::Builder;

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
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut file = BufReader::new(file);
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut length = 0;
    // In parts, since it may not fit into memory.
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
        let making = Builder::new().spawn_scoped(scope, move || {
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
