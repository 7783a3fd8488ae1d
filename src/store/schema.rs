//! The format of the state file and the attempts file: types and metadata of the
//! [columns](crate::model::state::columns).
//!
//! [`file`] writes and reads the bytes of Parquet files, [`decode`] turns Arrow batches into rows, and
//! [`digest`] hashes the rows. All of it works in memory; the store opens and replaces files.

mod decode;
mod digest;
pub mod file;

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;

pub use file::Contents;

use crate::model::state::columns::{COLUMNS, Column, Kind};

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

fn own_column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
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
    for name in of_first
        .fields()
        .iter()
        .chain(new)
        .map(|field| field.name())
    {
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
