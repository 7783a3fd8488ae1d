//! Columns that are not ours: kept unchanged, and joined when two files are combined. Pure.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{can_cast_types, concat};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::cast;

/// Appends the lines of `second` to `first`. Also returns the number of lines of `first`. If both have
/// a column with the same name but different types, both become texts; if that is impossible, the
/// second one is renamed.
pub fn join(
    first: Option<&RecordBatch>,
    second: Option<&RecordBatch>,
) -> Result<(Option<RecordBatch>, u32), ArrowError> {
    let (Some(first), Some(second)) = (first, second) else {
        return Ok((first.or(second).cloned(), 0));
    };
    let before = u32::try_from(first.num_rows())
        .map_err(|_| ArrowError::ComputeError("too many rows".to_owned()))?;
    // Each name with its column in the first and in the second.
    let columns_of_first = named(first).map(|(name, array)| (name, Some(array), None));
    let mut columns: Vec<(String, Option<ArrayRef>, Option<ArrayRef>)> = columns_of_first.collect();
    for (name, array) in named(second) {
        let partner = columns.iter_mut().find(|(known, first, second)| {
            let fits = |first: &ArrayRef| common(first, &array).is_some();
            *known == name && second.is_none() && first.as_ref().is_some_and(fits)
        });
        match partner {
            Some((_, _, second)) => *second = Some(array),
            None => {
                let is_taken = |name: &str| columns.iter().any(|(known, ..)| known == name);
                columns.push((free_name(name, is_taken), None, Some(array)));
            }
        }
    }
    let mut joined = Vec::with_capacity(columns.len());
    for (name, of_first, of_second) in columns {
        let kind = match (&of_first, &of_second) {
            (Some(a), Some(b)) => common(a, b).unwrap_or(DataType::Utf8),
            (one, other) => one
                .as_ref()
                .or(other.as_ref())
                .map_or(DataType::Null, |array| array.data_type().clone()),
        };
        let part = |array: Option<ArrayRef>, rows| match array {
            Some(array) if *array.data_type() != DataType::Null => cast(&array, &kind),
            _ => Ok(new_null_array(&kind, rows)),
        };
        let (a, b) = (
            part(of_first, first.num_rows())?,
            part(of_second, second.num_rows())?,
        );
        joined.push((name, concat(&[a.as_ref(), b.as_ref()])?, true));
    }
    Ok((
        Some(RecordBatch::try_from_iter_with_nullable(joined)?),
        before,
    ))
}

fn named(batch: &RecordBatch) -> impl Iterator<Item = (String, ArrayRef)> {
    let fields = batch.schema_ref().fields().iter();
    let columns = batch.columns().iter().map(Arc::clone);
    fields.map(|field| field.name().clone()).zip(columns)
}

/// A type for the values of both.
fn common(first: &ArrayRef, second: &ArrayRef) -> Option<DataType> {
    let (a, b) = (first.data_type(), second.data_type());
    if a == b || *b == DataType::Null {
        return Some(a.clone());
    }
    if *a == DataType::Null {
        return Some(b.clone());
    }
    let castable = can_cast_types(a, &DataType::Utf8) && can_cast_types(b, &DataType::Utf8);
    // Bytes may not be text.
    let bytes =
        a.is_binary() || b.is_binary() || *a == DataType::BinaryView || *b == DataType::BinaryView;
    (castable && !bytes).then_some(DataType::Utf8)
}

fn free_name(name: String, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|count| format!("{name}_{count}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}
