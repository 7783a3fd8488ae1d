//! The label of an id, formed as in the Python program.

/// The digits of padded labels.
pub(super) const SUBJECT_WIDTH: usize = 4;
pub(super) const SESSION_WIDTH: usize = 12;

/// The words that pandas reads as missing values (`pandas.read_csv`, `na_values`).
const NA_WORDS: [&str; 18] = [
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// `None` for pandas' NA words and blank text.
pub(super) fn value(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !NA_WORDS.contains(&text)).then_some(text)
}

/// True if a column contains only numbers. The Python program also decided by column.
pub(super) fn are_numbers<'a>(column: impl Iterator<Item = &'a str>) -> bool {
    column
        .filter_map(value)
        .all(|id| whole_number(id).is_some())
}

/// A number's digits without a zero fraction (`12.0`).
fn whole_number(id: &str) -> Option<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = id.split_once('.').unwrap_or((id, ""));
    (is_number(whole) && fraction.bytes().all(|b| b == b'0')).then_some(whole)
}

/// The label of an id, which may be invalid. An id with the prefix already is a label.
pub(super) fn label(id: &str, prefix: &str, padding: Option<(usize, bool)>) -> String {
    match padding {
        _ if id.starts_with(prefix) => id.to_owned(),
        Some((width, is_number)) => format!("{prefix}{:0>width$}", bare(id, is_number)),
        None => format!("{prefix}{id}"),
    }
}

/// An id without spaces, `-` and `_`, which labels cannot contain. A number loses its leading zeros; in a column of
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
