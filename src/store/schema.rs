//! The format of the state file and the attempts file: types and metadata of the
//! [columns](crate::model::state::columns).
//!
//! [`file`] writes and reads the bytes of Parquet files, [`decode`] turns Arrow batches into rows, and
//! [`digest`] hashes the rows. All of it works in memory; the store opens and replaces files.

mod decode;
mod digest;
pub mod file;
pub mod other_columns;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::error::ArrowError;

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
