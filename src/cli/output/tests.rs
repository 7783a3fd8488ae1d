use super::without_error_numbers;

#[test]
fn error_numbers_are_removed() {
    let without_numbers = |text| without_error_numbers(text, Some(8192));
    let text = "cannot read x: Permission denied (os error 13); nothing was submitted";
    assert_eq!(
        without_numbers(text),
        "cannot read x: Permission denied; nothing was submitted"
    );
    assert_eq!(
        without_numbers("a (os error x) b (os error"),
        "a (os error x) b (os error"
    );
    let text = "cannot write x: File too large (os error 27)";
    assert_eq!(
        without_numbers(text),
        "cannot write x: File too large (ulimit -f: 8192 bytes)"
    );
    // A limit of the file system itself.
    assert_eq!(
        without_error_numbers(text, None),
        "cannot write x: File too large"
    );
}
