//! The hash of the rows: SHA-256 of a canonical form of every column and of the metadata.
//!
//! It does not depend on how Parquet stores the values (encoding, compression, row groups,
//! dictionaries), and finds damage that Parquet itself misses: most pages have no checksum.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sha2::{Digest as _, Sha256};

use super::dictionary;
use crate::base::hex::hex;

/// Name of the canonical form; precedes the hash in the metadata.
pub(super) const SCHEME: &str = "sha256-columns-1";

/// The hash of the batches of one file, in order.
pub(super) struct Digest {
    columns: Vec<Column>,
    rows: u64,
    buffer: Vec<u8>,
}

struct Column {
    name: String,
    kind: &'static str,
    hash: Sha256,
}

/// Written in place of a length for a null.
const NULL: u32 = u32::MAX;

impl Digest {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let columns = schema
            .fields()
            .iter()
            .map(|field| Column {
                name: field.name().clone(),
                kind: kind(field.data_type()),
                hash: Sha256::new(),
            })
            .collect();
        Self {
            columns,
            rows: 0,
            buffer: Vec::new(),
        }
    }

    pub(super) fn update(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        self.rows += batch.num_rows() as u64;
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            self.buffer.clear();
            canonical(array, &mut self.buffer)?;
            column.hash.update(&self.buffer);
        }
        Ok(())
    }

    /// The hash of everything, preceded by the name of its scheme. `metadata` are our keys and values
    /// except the hash itself.
    pub(super) fn finish(self, metadata: &[(String, String)]) -> String {
        let mut sorted: Vec<_> = metadata.iter().collect();
        sorted.sort();
        let mut all = Sha256::new();
        let text = |hash: &mut Sha256, text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        all.update(self.rows.to_le_bytes());
        all.update((sorted.len() as u64).to_le_bytes());
        for (key, value) in sorted {
            text(&mut all, key);
            text(&mut all, value);
        }
        for column in self.columns {
            text(&mut all, &column.name);
            text(&mut all, column.kind);
            all.update(column.hash.finalize());
        }
        format!("{SCHEME}:{}", hex(&all.finalize()))
    }
}

/// A name for each type of this program's columns. The words are part of the hash in files and must never change.
fn kind(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Dictionary(_, value) => kind(value),
        DataType::Boolean => "flag",
        DataType::Int32 | DataType::Int64 => "int",
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp us UTC",
        text if text.is_string() => "text",
        _ => "other",
    }
}

fn canonical(array: &ArrayRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    match array.data_type() {
        DataType::Utf8 => {
            for value in array.as_string::<i32>() {
                bytes(value, out);
            }
        }
        shared if *shared == dictionary() => {
            let dictionary = array.as_dictionary::<Int32Type>();
            let values = dictionary.values().as_string::<i32>();
            for key in dictionary.keys() {
                let key = key.and_then(|key| usize::try_from(key).ok());
                // The dictionary itself may also contain a null.
                let key = key.filter(|key| values.is_valid(*key));
                bytes(key.map(|key| values.value(key)), out);
            }
        }
        DataType::Boolean => {
            let flags = array.as_boolean().iter();
            out.extend(flags.map(|flag| flag.map_or(2, u8::from)));
        }
        DataType::Int64 => {
            for value in array.as_primitive::<Int64Type>() {
                out.push(u8::from(value.is_some()));
                out.extend(value.into_iter().flat_map(i64::to_le_bytes));
            }
        }
        DataType::Int32 | DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            canonical(&cast(array, &DataType::Int64)?, out)?;
        }
        // Columns of other programs, as text.
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
            for at in 0..array.len() {
                match array.is_null(at) {
                    true => bytes(None, out),
                    false => bytes(Some(&formatter.value(at).try_to_string()?), out),
                }
            }
        }
    }
    Ok(())
}

/// Writes the length of a text, then the text.
fn bytes(value: Option<&str>, out: &mut Vec<u8>) {
    // 4 GiB cannot occur, since they would not fit into a page.
    let length = value.map_or(NULL, |value| u32::try_from(value.len()).unwrap_or(NULL - 1));
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default().as_bytes());
}
