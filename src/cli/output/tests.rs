use super::in_plain_words;

#[test]
fn error_numbers_are_left_out() {
    let without_numbers = |text| in_plain_words(text, Some(8192));
    let told = "cannot read x: Permission denied (os error 13); nothing was submitted";
    assert_eq!(
        without_numbers(told),
        "cannot read x: Permission denied; nothing was submitted"
    );
    assert_eq!(
        without_numbers("a (os error x) b (os error"),
        "a (os error x) b (os error"
    );
    let told = "cannot write x: File too large (os error 27)";
    assert_eq!(
        without_numbers(told),
        "cannot write x: File too large (ulimit -f: 8192 bytes)"
    );
    // A limit of the file system's own.
    assert_eq!(in_plain_words(told, None), "cannot write x: File too large");
}
