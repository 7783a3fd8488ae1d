//! The records of a CSV or TSV file, with their lines.

/// The text after the file's name in a message, and the remedy.
pub(super) type Problem = (String, &'static str);

/// A record's first line (from 1) and its values.
pub(super) type Record = (usize, Vec<String>);

const QUOTING: &str = "put values with commas, quotation marks or line ends in \"...\"";
const NO_QUOTING: &str =
    "tabs separate the values of a .tsv file; a value cannot contain one, even in \"...\"";

/// The header and the records, of at most as many values. As pandas does, skips blank lines, ignores a byte order mark,
/// and reads missing values at the end as empty.
pub(super) fn table(bytes: &[u8], is_tsv: bool) -> Result<(Vec<String>, Vec<Record>), Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let hint = "save the file as CSV or TSV in UTF-8";
        (format!(", line {line}: not UTF-8"), hint)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = split(text, is_tsv)?;
    if records.is_empty() {
        let hint =
            "write the names of the columns in the first line, even if there are no sessions yet";
        return Err((" is empty".to_owned(), hint));
    }
    let (_, header) = records.remove(0);
    let expected = header.len();
    let wrong_count = |line, found, hint| {
        let problem =
            format!(", line {line}: {found} values, but the header names {expected} columns");
        Err((problem, hint))
    };
    for (line, values) in &mut records {
        while values.len() > expected && values.last().is_some_and(|value| value.trim().is_empty())
        {
            values.pop();
        }
        if values.len() > expected {
            let hint = if is_tsv { NO_QUOTING } else { QUOTING };
            return wrong_count(*line, values.len(), hint);
        }
    }
    // The last record of a truncated file is shorter than all others.
    if let Some(((line, last), others)) = records.split_last()
        && last.len() < expected
        && others.iter().all(|(_, values)| last.len() < values.len())
    {
        return wrong_count(
            *line,
            last.len(),
            "the last line seems to be cut off: write the file again under another name, then move it into place",
        );
    }
    Ok((header, records))
}

/// Splits a text into records that are not blank. Tabs separate the values of a TSV file, without quoting (BIDS).
fn split(text: &str, is_tsv: bool) -> Result<Vec<Record>, Problem> {
    let separator = if is_tsv { '\t' } else { ',' };
    let (mut records, mut values, mut value) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut first) = (1, 1);
    // The line of an opening quotation mark.
    let mut opened = None;
    let mut chars = text.chars().chain(['\n']).peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if opened.is_some() => match chars.next_if_eq(&'"') {
                Some(quote) => value.push(quote),
                // Text after a closing quotation mark belongs to the value too.
                None => opened = None,
            },
            '"' if !is_tsv && value.is_empty() => opened = Some(line),
            '\r' if opened.is_none() && chars.peek() == Some(&'\n') => {}
            '\r' | '\n' if opened.is_none() => {
                values.push(std::mem::take(&mut value));
                let record: Vec<String> = std::mem::take(&mut values);
                if record.len() > 1 || record.iter().any(|value| !value.trim().is_empty()) {
                    records.push((first, record));
                }
                line += 1;
                first = line;
            }
            _ if c == separator && opened.is_none() => values.push(std::mem::take(&mut value)),
            _ => {
                line += usize::from(c == '\n');
                value.push(c);
            }
        }
    }
    match opened {
        None => Ok(records),
        Some(line) => Err((
            format!(", line {line}: a quotation mark is never closed"),
            QUOTING,
        )),
    }
}
