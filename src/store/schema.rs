//! The format of the state file and the attempts file: types and metadata of the
//! [columns](crate::model::state::columns).
//!
//! [`file`] writes and reads the bytes of Parquet files, [`decode`] turns Arrow batches into rows, and
//! [`digest`] hashes the rows. All of it works in memory; the store opens and replaces files.

mod decode;
pub mod file;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions, array_value_to_string};
use sha2::{Digest as _, Sha256};

pub use file::Contents;

use crate::base::text::hex;
use crate::model::state::columns::{COLUMNS, Kind};

/// The format version that this program writes. Files of later versions are read, but never written.
pub const FORMAT_VERSION: u32 = 1;

/// Plain strings, so that pandas reads `object` or `str`. Everything may be null, as in the files of the
/// Python program.
fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
        Kind::Int32 => DataType::Int32,
        Kind::Int64 => DataType::Int64,
        Kind::Flag => DataType::Boolean,
        _ => DataType::Utf8,
    }
}

/// Texts of which equal ones are stored once.
fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// True for texts that repeat from row to row.
fn repeats(kind: Kind) -> bool {
    data_type(kind) == DataType::Utf8 && !matches!(kind, Kind::UniqueText | Kind::JobId)
}

/// The schema of a file: our columns first, then other columns.
fn schema_with(other_columns: Option<&Schema>) -> Schema {
    let own = COLUMNS
        .iter()
        .map(|column| Arc::new(Field::new(column.name, data_type(column.kind), true)));
    let others = other_columns
        .into_iter()
        .flat_map(|schema| schema.fields().iter())
        .map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    Schema::new(own.chain(others).collect::<Vec<_>>())
}

/// A value that does not fit is an error, never a null.
fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    cast_with_options(array, to, &options)
}

/// Why bytes are not a state. The store adds the path.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    #[error("{0}")]
    Damaged(String),
    /// Well-formed, but not understood.
    #[error("{0}")]
    NotUnderstood(String),
}

impl ReadError {
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}

/// Appends the lines of `second` to `first`. Also returns the number of lines of `first`. If both have
/// a column with the same name but different types, both become texts.
pub fn join_other_columns(
    first: Option<&RecordBatch>,
    second: Option<&RecordBatch>,
) -> Result<(Option<RecordBatch>, u32), ArrowError> {
    let (Some(first), Some(second)) = (first, second) else {
        return Ok((first.or(second).cloned(), 0));
    };
    let before = u32::try_from(first.num_rows())
        .map_err(|_| ArrowError::ComputeError("too many rows".to_owned()))?;
    let (of_first, of_second) = (first.schema(), second.schema());
    let new = of_second.fields().iter();
    let new = new.filter(|field| of_first.field_with_name(field.name()).is_err());
    let mut joined = Vec::new();
    for field in of_first.fields().iter().chain(new) {
        let name = field.name();
        let (a, b) = (first.column_by_name(name), second.column_by_name(name));
        let mut types = [a, b].into_iter().flatten().map(|array| array.data_type());
        let known = types.clone().find(|known| **known != DataType::Null);
        let known = known.unwrap_or(&DataType::Null);
        let fits = types.all(|found| found == known || *found == DataType::Null);
        let kind = if fits { known } else { &DataType::Utf8 };
        let part = |array: Option<&ArrayRef>, rows| match array {
            Some(array) if array.data_type() == kind => Ok(Arc::clone(array)),
            Some(array) if *array.data_type() != DataType::Null => as_text(array),
            _ => Ok(new_null_array(kind, rows)),
        };
        let (a, b) = (part(a, first.num_rows())?, part(b, second.num_rows())?);
        joined.push((name, concat(&[a.as_ref(), b.as_ref()])?, true));
    }
    let joined = RecordBatch::try_from_iter_with_nullable(joined)?;
    Ok((Some(joined), before))
}

fn as_text(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let text = |at| array.is_valid(at).then(|| array_value_to_string(array, at));
    let texts = (0..array.len()).map(|at| text(at).transpose());
    Ok(Arc::new(texts.collect::<Result<StringArray, _>>()?))
}

/// Name of the canonical form; precedes the hash in the metadata.
pub(super) const SCHEME: &str = "sha256-columns-1";

/// The hash of the batches of one file, in order.
pub(super) struct Digest {
    columns: Vec<Hashed>,
    rows: u64,
    buffer: Vec<u8>,
}

struct Hashed {
    name: String,
    kind: &'static str,
    hash: Sha256,
}

/// Written in place of a length for a null.
const NULL: u32 = u32::MAX;

impl Digest {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let columns = schema.fields().iter().map(|field| Hashed {
            name: field.name().clone(),
            kind: kind(field.data_type()),
            hash: Sha256::new(),
        });
        Self {
            columns: columns.collect(),
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
