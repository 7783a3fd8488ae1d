//! Columns that are not ours: kept as they came, and put together when two files meet. Pure.

use std::sync::Arc;

use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{can_cast_types, concat};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::cast;

/// Puts the lines of `second` after those of `first`. Returns them, and the number of lines before
/// those of `second`. Where both have a column of one name with different types, both become
/// texts, or if that cannot be, the second one gets another name.
pub fn join(
    first: Option<&RecordBatch>,
    second: Option<&RecordBatch>,
) -> Result<(Option<RecordBatch>, u32), ArrowError> {
    let (first, second) = match (first, second) {
        (None, None) => return Ok((None, 0)),
        (Some(only), None) => return Ok((Some(only.clone()), 0)),
        (None, Some(only)) => return Ok((Some(only.clone()), 0)),
        (Some(first), Some(second)) => (first, second),
    };
    let before = u32::try_from(first.num_rows())
        .map_err(|_| ArrowError::ComputeError("too many rows".to_owned()))?;
    let mut columns: Vec<Joined> = first
        .schema()
        .fields()
        .iter()
        .zip(first.columns())
        .map(|(field, array)| Joined {
            name: field.name().clone(),
            first: Some(Arc::clone(array)),
            second: None,
        })
        .collect();
    for (field, array) in second.schema().fields().iter().zip(second.columns()) {
        let partner = columns.iter_mut().find(|column| {
            column.name == *field.name()
                && column.second.is_none()
                && column
                    .first
                    .as_ref()
                    .is_some_and(|first| common(first, array).is_some())
        });
        match partner {
            Some(column) => column.second = Some(Arc::clone(array)),
            None => columns.push(Joined {
                name: free_name(field.name(), &columns),
                first: None,
                second: Some(Arc::clone(array)),
            }),
        }
    }
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for column in columns {
        let array = column.array(first.num_rows(), second.num_rows())?;
        fields.push(Field::new(column.name, array.data_type().clone(), true));
        arrays.push(array);
    }
    let options =
        RecordBatchOptions::new().with_row_count(Some(first.num_rows() + second.num_rows()));
    let joined =
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
    Ok((Some(joined), before))
}

struct Joined {
    name: String,
    first: Option<ArrayRef>,
    second: Option<ArrayRef>,
}

impl Joined {
    fn array(&self, rows_first: usize, rows_second: usize) -> Result<ArrayRef, ArrowError> {
        let (first, second) = match (&self.first, &self.second) {
            (Some(first), Some(second)) => {
                let kind = common(first, second).unwrap_or(DataType::Utf8);
                (to(first, &kind)?, to(second, &kind)?)
            }
            (Some(first), None) => (
                Arc::clone(first),
                new_null_array(first.data_type(), rows_second),
            ),
            (None, Some(second)) => (
                new_null_array(second.data_type(), rows_first),
                Arc::clone(second),
            ),
            (None, None) => return Ok(new_null_array(&DataType::Null, rows_first + rows_second)),
        };
        concat(&[first.as_ref(), second.as_ref()])
    }
}

/// Returns a type that holds the values of both.
fn common(first: &ArrayRef, second: &ArrayRef) -> Option<DataType> {
    let (a, b) = (first.data_type(), second.data_type());
    if a == b || *b == DataType::Null {
        return Some(a.clone());
    }
    if *a == DataType::Null {
        return Some(b.clone());
    }
    let castable = can_cast_types(a, &DataType::Utf8) && can_cast_types(b, &DataType::Utf8);
    // Bytes need not be a text.
    let bytes =
        a.is_binary() || b.is_binary() || *a == DataType::BinaryView || *b == DataType::BinaryView;
    (castable && !bytes).then_some(DataType::Utf8)
}

fn to(array: &ArrayRef, kind: &DataType) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        same if same == kind => Ok(Arc::clone(array)),
        DataType::Null => Ok(new_null_array(kind, array.len())),
        _ => cast(array, kind),
    }
}

fn free_name(name: &str, columns: &[Joined]) -> String {
    let taken = |name: &str| columns.iter().any(|column| column.name == name);
    if !taken(name) {
        return name.to_owned();
    }
    (2..)
        .map(|count| format!("{name}_{count}"))
        .find(|name| !taken(name))
        .unwrap_or_else(|| name.to_owned())
}
