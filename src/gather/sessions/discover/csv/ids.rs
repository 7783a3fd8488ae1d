//! From an id as it is written to what a label is made of, as the Python program did it.

/// Digits of a subject's and of a session's label, where ids are padded.
pub(super) const SUBJECT_WIDTH: usize = 4;
pub(super) const SESSION_WIDTH: usize = 12;

/// What pandas takes for "no value" (`pandas.read_csv`, `na_values`).
const NA_WORDS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// Takes pandas' NA words and blanks for no value.
pub(super) fn value(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !NA_WORDS.contains(&text)).then_some(text)
}

/// True if a column holds numbers only. The Python program's reader decided by column, too.
pub(super) fn are_numbers<'a>(column: impl Iterator<Item = &'a str>) -> bool {
    column
        .filter_map(value)
        .all(|id| whole_number(id).is_some())
}

/// Returns a number's digits without an empty fraction (`12.0`).
fn whole_number(id: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = id.split_once('.').unwrap_or((id, ""));
    (is_number(whole) && fraction.bytes().all(|b| b == b'0')).then_some(whole)
}

/// Returns the label of an id, which may be none. What has its prefix is a label already.
pub(super) fn label(id: &str, prefix: &str, padding: Option<(usize, bool)>) -> String {
    match padding {
        _ if id.starts_with(prefix) => id.to_owned(),
        Some((width, is_number)) => format!("{prefix}{:0>width$}", bare(id, is_number)),
        None => format!("{prefix}{id}"),
    }
}

/// Returns an id without what no label holds: blanks, `-` and `_`. A number loses its leading zeros; in a column of
/// texts they are part of the id.
fn bare(id: &str, is_number: bool) -> String {
    match whole_number(id).filter(|_| is_number) {
        Some(whole) => whole.trim_start_matches('0').to_owned(),
        None => id
            .chars()
            .filter(|c| !matches!(c, '-' | '_') && !c.is_whitespace())
            .collect(),
    }
}
