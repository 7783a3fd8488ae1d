//! The hash of the rows: SHA-256 of a canonical form of every column and of the metadata.
//!
//! It does not depend on how Parquet stores the values (encoding, compression, row groups,
//! dictionaries), and finds damage that Parquet itself misses: most pages have no checksum.

use crate::base::hex::hex;
use arrow::array::{Array, ArrayRef, AsArray, GenericStringArray, OffsetSizeTrait};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Float32Type, Float64Type,
    Int32Type, Int64Type, SchemaRef, TimeUnit, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use sha2::{Digest as _, Sha256};

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
    kind: String,
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
            text(&mut all, &column.kind);
            all.update(column.hash.finalize());
        }
        format!("{SCHEME}:{}", hex(&all.finalize()))
    }
}

/// A name for each type whose canonical bytes differ in meaning. The words are part of the hash in
/// files and must never change.
fn kind(data_type: &DataType) -> String {
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".to_owned(),
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "binary".to_owned(),
        DataType::Boolean => "flag".to_owned(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => "int".to_owned(),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            "uint".to_owned()
        }
        DataType::Float32 => "float32".to_owned(),
        DataType::Float64 => "float64".to_owned(),
        DataType::Date32 => "date32".to_owned(),
        DataType::Date64 => "date64".to_owned(),
        DataType::Timestamp(u, zone) => {
            format!("timestamp {} {}", unit(u), zone.as_deref().unwrap_or("-"))
        }
        DataType::Duration(u) => format!("duration {}", unit(u)),
        DataType::Decimal128(precision, scale) => format!("decimal {precision} {scale}"),
        DataType::Dictionary(_, value) => kind(value),
        _ => "other".to_owned(),
    }
}

fn canonical(array: &ArrayRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    match array.data_type() {
        DataType::Utf8 => texts(array.as_string::<i32>(), out),
        DataType::LargeUtf8 => texts(array.as_string::<i64>(), out),
        DataType::Dictionary(key, value) => {
            match (key.as_ref(), array.as_any_dictionary_opt()) {
                (DataType::Int32, Some(dictionary))
                    if dictionary.values().data_type() == &DataType::Utf8 =>
                {
                    let keys = array.as_dictionary::<Int32Type>().keys();
                    let values = dictionary.values().as_string::<i32>();
                    out.reserve(array.len() * 16);
                    for key in keys {
                        // The dictionary itself may also contain a null.
                        match key.and_then(|key| usize::try_from(key).ok()) {
                            Some(at) if values.is_valid(at) => {
                                bytes(values.value(at).as_bytes(), out)
                            }
                            _ => out.extend_from_slice(&NULL.to_le_bytes()),
                        }
                    }
                }
                _ => canonical(&cast(array, value)?, out)?,
            }
        }
        DataType::Utf8View => canonical(&cast(array, &DataType::LargeUtf8)?, out)?,
        DataType::Binary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            canonical(&cast(array, &DataType::LargeBinary)?, out)?;
        }
        DataType::LargeBinary => {
            for value in array.as_binary::<i64>() {
                optional(value, out);
            }
        }
        DataType::Boolean => {
            out.extend(array.as_boolean().iter().map(|value| match value {
                Some(value) => u8::from(value),
                None => 2,
            }));
        }
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Duration(_)
        | DataType::Timestamp(_, _) => canonical(&cast(array, &DataType::Int64)?, out)?,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => {
            canonical(&cast(array, &DataType::UInt64)?, out)?;
        }
        DataType::Int64 => numbers::<Int64Type, 8>(array, i64::to_le_bytes, out),
        DataType::UInt64 => numbers::<UInt64Type, 8>(array, u64::to_le_bytes, out),
        DataType::Float32 => numbers::<Float32Type, 4>(array, f32::to_le_bytes, out),
        DataType::Float64 => numbers::<Float64Type, 8>(array, f64::to_le_bytes, out),
        DataType::Date32 => numbers::<Date32Type, 4>(array, i32::to_le_bytes, out),
        DataType::Date64 => numbers::<Date64Type, 8>(array, i64::to_le_bytes, out),
        DataType::Decimal128(_, _) => {
            numbers::<Decimal128Type, 16>(array, i128::to_le_bytes, out);
        }
        _ => shown(array, out)?,
    }
    Ok(())
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    // 4 GiB cannot occur, since they would not fit into a page.
    let length = u32::try_from(value.len()).unwrap_or(NULL - 1);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(value);
}

fn optional(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => bytes(value, out),
        None => out.extend_from_slice(&NULL.to_le_bytes()),
    }
}

fn texts<O: OffsetSizeTrait>(array: &GenericStringArray<O>, out: &mut Vec<u8>) {
    out.reserve(array.len() * 16);
    for value in array {
        optional(value.map(str::as_bytes), out);
    }
}

/// Writes for each value whether it exists, then the value.
fn numbers<T: ArrowPrimitiveType, const N: usize>(
    array: &ArrayRef,
    to_bytes: impl Fn(T::Native) -> [u8; N],
    out: &mut Vec<u8>,
) {
    out.reserve(array.len() * (N + 1));
    for value in array.as_primitive::<T>() {
        out.push(u8::from(value.is_some()));
        if let Some(value) = value {
            out.extend_from_slice(&to_bytes(value));
        }
    }
}

/// Writes values of rare types (lists, structs) as text.
fn shown(array: &ArrayRef, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
    for at in 0..array.len() {
        if array.is_null(at) {
            optional(None, out);
        } else {
            bytes(formatter.value(at).try_to_string()?.as_bytes(), out);
        }
    }
    Ok(())
}
