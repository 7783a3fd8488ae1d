//! The records of a CSV or TSV file, with their lines.

/// The columns and records of a file.
pub(super) struct Table {
    pub header: Vec<String>,
    /// Each record's values, at most as many as the header's, with its first line (from 1).
    pub records: Vec<(usize, Vec<String>)>,
}

/// The text after the file's name in a message, and the remedy.
type Problem = (String, &'static str);

const QUOTING: &str = "put values with commas, quotation marks or line ends in \"...\"";
const NO_QUOTING: &str =
    "tabs separate the values of a .tsv file; a value cannot contain one, even in \"...\"";

/// Splits records as pandas does: blank lines are skipped, a byte order mark is ignored, missing values at the end are
/// empty. Tabs separate the values of a TSV file, without quoting (BIDS).
pub(super) fn read(bytes: &[u8], is_tsv: bool) -> Result<Table, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + line_ends(bytes.get(..error.valid_up_to()).unwrap_or_default());
        let hint = "save the file as CSV or TSV in UTF-8";
        (format!(", line {line}: not UTF-8"), hint)
    })?;
    let mut scanner = Scanner {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
        is_tsv,
    };
    let Some((_, header)) = scanner.record()? else {
        let hint =
            "write the names of the columns in the first line, even if there are no sessions yet";
        return Err((" is empty".to_owned(), hint));
    };
    let expected = header.len();
    let wrong_count = |line, found, hint| {
        let problem =
            format!(", line {line}: {found} values, but the header names {expected} columns");
        Err((problem, hint))
    };
    let mut records: Vec<(usize, Vec<String>)> = Vec::new();
    while let Some((line, mut values)) = scanner.record()? {
        while values.len() > expected && values.last().is_some_and(|value| value.trim().is_empty())
        {
            values.pop();
        }
        if values.len() > expected {
            let hint = if is_tsv { NO_QUOTING } else { QUOTING };
            return wrong_count(line, values.len(), hint);
        }
        records.push((line, values));
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
    Ok(Table { header, records })
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
    is_tsv: bool,
}

impl Scanner<'_> {
    /// The next record that is not blank, with its first line; `None` at the end.
    fn record(&mut self) -> Result<Option<(usize, Vec<String>)>, Problem> {
        let separator = if self.is_tsv { "\t" } else { "," };
        while !self.rest.is_empty() {
            let line = self.line;
            let mut values = Vec::new();
            loop {
                values.push(self.value(separator)?);
                if !self.skip(separator) {
                    break;
                }
            }
            if self.skip("\r\n") || self.skip("\n") || self.skip("\r") {
                self.line += 1;
            }
            if values.len() > 1 || values.iter().any(|value| !value.trim().is_empty()) {
                return Ok(Some((line, values)));
            }
        }
        Ok(None)
    }

    fn value(&mut self, separator: &str) -> Result<String, Problem> {
        let mut value = String::new();
        if !self.is_tsv && self.skip("\"") {
            let opened = self.line;
            loop {
                let end = self.rest.find('"').ok_or_else(|| {
                    let problem = format!(", line {opened}: a quotation mark is never closed");
                    (problem, QUOTING)
                })?;
                self.take(end, &mut value);
                self.skip("\"");
                if !self.skip("\"") {
                    break;
                }
                value.push('"');
            }
        }
        // Text after a closing quotation mark belongs to the value too.
        let end = self
            .rest
            .find(|c| separator.contains(c) || matches!(c, '\n' | '\r'));
        self.take(end.unwrap_or(self.rest.len()), &mut value);
        Ok(value)
    }

    fn take(&mut self, end: usize, value: &mut String) {
        let (part, rest) = self.rest.split_at(end);
        self.line += line_ends(part.as_bytes());
        value.push_str(part);
        self.rest = rest;
    }

    fn skip(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}
