//! The exact shape of the state file and the attempts file: columns, types, metadata.
//!
//! Rows become Arrow batches in [`encode`] and come back in [`decode`]; [`file`] makes Parquet of
//! them; [`digest`] is the hash of the rows. All of it works on bytes in memory: opening, naming
//! and replacing files is the store's work.

mod columns;
mod decode;
mod digest;
mod encode;
pub mod file;
mod guard;
mod keys;
pub mod other_columns;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

pub use file::Contents;

/// The format that this program writes. Files of a higher one are read and never written.
pub const FORMAT_VERSION: u32 = 1;

/// Names and kinds of the columns, in the order of the file. The first six are fixed for ever:
/// scripts of users rely on them.
pub const COLUMNS: [(&str, Kind); 27] = [
    ("subject", Kind::Text),
    ("session", Kind::Text),
    ("procedure", Kind::Text),
    ("status", Kind::Text),
    ("submitted_at", Kind::Time),
    ("job_id", Kind::UniqueText),
    ("reason", Kind::Text),
    ("attempt", Kind::Int32),
    ("slurm_state", Kind::Text),
    ("exit_code", Kind::Text),
    ("started_at", Kind::Time),
    ("ended_at", Kind::Time),
    ("updated_at", Kind::Time),
    ("missing_since", Kind::Time),
    ("node_list", Kind::Text),
    ("req_mem_mb", Kind::Int64),
    ("max_rss_mb", Kind::Int64),
    ("time_limit_s", Kind::Int64),
    ("elapsed_s", Kind::Int64),
    ("cpu_time_s", Kind::Int64),
    ("alloc_cpus", Kind::Int64),
    ("job_name", Kind::UniqueText),
    ("cluster", Kind::Text),
    ("submission_id", Kind::UniqueText),
    ("replaces_outputs", Kind::Flag),
    ("retry_state", Kind::Text),
    ("input_sessions", Kind::Text),
];

/// Says how a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text of which many rows share a value.
    Text,
    /// Text that differs from row to row.
    UniqueText,
    /// Microseconds since 1970, UTC.
    Time,
    Int32,
    Int64,
    Flag,
}

impl Kind {
    /// Plain strings, so that pandas makes `object` or `str` of them. Everything may be null, as
    /// in the files of the Python program.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Text | Self::UniqueText => DataType::Utf8,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Flag => DataType::Boolean,
        }
    }
}

/// Returns true if the column is one of ours.
pub fn is_own(name: &str) -> bool {
    COLUMNS.iter().any(|(own, _)| *own == name)
}

/// Returns the schema of a file with our columns first and then those of others.
pub fn schema_with(other_columns: Option<&Schema>) -> Schema {
    let own = COLUMNS
        .iter()
        .map(|(name, kind)| Arc::new(Field::new(*name, kind.data_type(), true)));
    let others = other_columns
        .into_iter()
        .flat_map(|schema| schema.fields().iter())
        .map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
    Schema::new(own.chain(others).collect::<Vec<_>>())
}

/// Says why bytes are no state. The store adds the file's name.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReadError {
    #[error("{0}")]
    Damaged(String),
    /// The words of the parquet library.
    #[error(
        "its compression is not known here ({0}): write it with snappy, gzip, lz4, zstd or none"
    )]
    Compression(String),
    #[error("column '{column}' is missing (found: {})", .found.join(", "))]
    MissingColumn {
        column: &'static str,
        found: Vec<String>,
    },
    #[error("column '{0}' appears twice")]
    DoubledColumn(&'static str),
    #[error("column '{column}' has type {found}, expected {expected}")]
    ColumnType {
        column: &'static str,
        found: String,
        expected: &'static str,
    },
    /// Rows count from 0, as pandas shows them.
    #[error("row {row}: {column} is {value}, expected {expected}")]
    Value {
        row: usize,
        column: &'static str,
        value: String,
        expected: &'static str,
    },
}

impl ReadError {
    /// True if the bytes are broken, as opposed to well-formed and not understood.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }
}
