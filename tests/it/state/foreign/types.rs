//! Columns of every type that other programs write.

use super::*;

#[test]
fn text_of_every_type() {
    let values = ["sub-0001", "sub-0002"];
    let dictionary = |key| DataType::Dictionary(Box::new(key), Box::new(DataType::Utf8));
    let large = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
    let arrays: Vec<ArrayRef> = vec![
        strings(&values),
        Arc::new(LargeStringArray::from(values.to_vec())),
        Arc::new(StringViewArray::from(values.to_vec())),
        cast(&strings(&values), &dictionary(DataType::Int8)).unwrap(),
        cast(&strings(&values), &dictionary(DataType::Int32)).unwrap(),
        cast(&strings(&values), &large).unwrap(),
        cast(&strings(&values), &DataType::Binary).unwrap(),
    ];
    for array in arrays {
        let kind = array.data_type().clone();
        let contents = read(with(base(), "subject", array)).unwrap();
        let subjects: Vec<&str> = contents
            .rows
            .iter()
            .map(|row| row.key.subject.as_ref())
            .collect();
        assert_eq!(subjects, values, "{kind}");
    }
}

#[test]
fn categorical_status() {
    let status = strings(&["running", "failed"]);
    let kind = DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8));
    let array = cast(&status, &kind).unwrap();
    assert_eq!(array.data_type(), &kind);
    let _: &arrow::array::DictionaryArray<UInt8Type> = arrow::array::AsArray::as_dictionary(&array);
    let contents = read(with(base(), "status", array)).unwrap();
    assert_eq!(contents.rows[0].status, TaskStatus::Running);
}

#[test]
fn times_of_every_unit_with_and_without_zone() {
    let us = micros(&[1, 2]);
    let divided = |by: i64| us.iter().map(|value| value / by).collect::<Vec<_>>();
    let ns: Vec<i64> = us.iter().map(|value| value * 1000 + 999).collect();
    let arrays: Vec<(ArrayRef, i64)> = vec![
        (
            Arc::new(TimestampSecondArray::from(divided(1_000_000))),
            1_000_000,
        ),
        (
            Arc::new(TimestampMillisecondArray::from(divided(1000))),
            1000,
        ),
        (Arc::new(TimestampMicrosecondArray::from(us.clone())), 1),
        (Arc::new(TimestampNanosecondArray::from(ns.clone())), 1),
        (
            Arc::new(TimestampNanosecondArray::from(ns).with_timezone("UTC")),
            1,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(us.clone()).with_timezone("Europe/Berlin")),
            1,
        ),
        (
            Arc::new(TimestampMicrosecondArray::from(us.clone()).with_timezone("+02:00")),
            1,
        ),
    ];
    for (array, cut) in arrays {
        let kind = array.data_type().clone();
        let contents = read(with(base(), "submitted_at", array)).unwrap();
        let found = contents.rows[0].submitted_at.unwrap().timestamp_micros();
        assert_eq!(found, us[0] / cut * cut, "{kind}");
    }
    let contents = read(with(base(), "submitted_at", Arc::new(NullArray::new(2)))).unwrap();
    assert_eq!(contents.rows[0].submitted_at, None);
}

#[test]
fn job_ids_of_every_type() {
    let table: Vec<(ArrayRef, [Option<&str>; 2])> = vec![
        (
            Arc::new(Int64Array::from(vec![Some(123), None])),
            [Some("123"), None],
        ),
        (
            Arc::new(UInt64Array::from(vec![123, 4])),
            [Some("123"), Some("4")],
        ),
        (
            Arc::new(Float64Array::from(vec![Some(123.0), Some(f64::NAN)])),
            [Some("123"), None],
        ),
        (
            Arc::new(Float64Array::from(vec![Some(49_123_456.0), None])),
            [Some("49123456"), None],
        ),
        (strings(&["123.0", "nan"]), [Some("123"), None]),
        (strings(&["", "None"]), [None, None]),
        (strings(&["<NA>", " 77_3 "]), [None, Some("77_3")]),
        (
            strings(&["local-7", "12.0.0"]),
            [Some("local-7"), Some("12.0.0")],
        ),
        (Arc::new(NullArray::new(2)), [None, None]),
    ];
    for (array, expected) in table {
        let contents = read(with(base(), "job_id", Arc::clone(&array))).unwrap();
        assert_eq!(ids(&contents), expected, "{array:?}");
    }
}

#[test]
fn attempts_as_floats_and_what_is_none() {
    let attempts = |array: ArrayRef| read(with(base(), "attempt", array));
    let floats = attempts(Arc::new(Float64Array::from(vec![
        Some(2.0),
        Some(f64::NAN),
    ])))
    .unwrap();
    assert_eq!(
        (floats.rows[0].attempt, floats.rows[1].attempt),
        (Some(2), None)
    );
    let error = attempts(Arc::new(Float64Array::from(vec![2.5, 1.0]))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row 0: attempt is 2.5, expected whole numbers"
    );
    let error = attempts(Arc::new(Int64Array::from(vec![1, 1 << 40]))).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("row 1: attempt is 1099511627776"),
        "{error}"
    );
    let error = attempts(strings(&["one", "two"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "column 'attempt' has type Utf8, expected whole numbers"
    );
}
