//! The lines of a CSV file: where each record begins, and its text in one plain form.
//!
//! polars tells the number of a record, people want that of a line. So records are told apart
//! here, and handed on without blank lines, with `\n` as line end and quoted only where it must be.

use std::path::Path;

use super::CsvError;

/// Holds a file's records.
#[derive(Debug)]
pub(super) struct Records {
    pub header: Vec<String>,
    /// Header and records again as CSV; every record has as many values as the header.
    pub text: Vec<u8>,
    /// The line in which each record after the header begins, from 1.
    pub lines: Vec<usize>,
}

/// Tells records apart as pandas does: blank lines are skipped, a mark of byte order is ignored,
/// values that lack at the end are empty.
pub(super) fn records(file: &Path, bytes: &[u8]) -> Result<Records, CsvError> {
    let text = std::str::from_utf8(bytes).map_err(|error| CsvError::NotUtf8 {
        file: file.to_owned(),
        line: 1 + line_ends(bytes.get(..error.valid_up_to()).unwrap_or_default()),
    })?;
    let mut scanner = Scanner {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
    };
    let mut header: Option<Vec<String>> = None;
    let mut out = Vec::with_capacity(bytes.len());
    let mut lines = Vec::new();
    let (mut last, mut fewest) = (None, usize::MAX);
    while let Some((line, mut values)) = scanner.record().map_err(|line| CsvError::OpenQuote {
        file: file.to_owned(),
        line,
    })? {
        let Some(header) = &header else {
            write(&mut out, &values);
            header = Some(values);
            continue;
        };
        let expected = header.len();
        while values.len() > expected && values.last().is_some_and(|value| value.trim().is_empty())
        {
            values.pop();
        }
        if values.len() > expected {
            return Err(CsvError::ValueCount {
                file: file.to_owned(),
                line,
                found: values.len(),
                expected,
            });
        }
        if let Some((_, before)) = last.replace((line, values.len())) {
            fewest = fewest.min(before);
        }
        values.resize(expected, String::new());
        write(&mut out, &values);
        lines.push(line);
    }
    let header = header.ok_or_else(|| CsvError::Empty {
        file: file.to_owned(),
    })?;
    // Only the last record of a file that was cut off is shorter than all others.
    if let Some((line, found)) = last
        && found < fewest.min(header.len())
    {
        return Err(CsvError::ValueCount {
            file: file.to_owned(),
            line,
            found,
            expected: header.len(),
        });
    }
    Ok(Records {
        header,
        text: out,
        lines,
    })
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

fn write(out: &mut Vec<u8>, values: &[String]) {
    for (index, value) in values.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        if value.contains([',', '"', '\n', '\r']) {
            out.push(b'"');
            out.extend_from_slice(value.replace('"', "\"\"").as_bytes());
            out.push(b'"');
        } else {
            out.extend_from_slice(value.as_bytes());
        }
    }
    out.push(b'\n');
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl Scanner<'_> {
    /// Returns the next record that is not blank, with its first line; none at the end.
    ///
    /// # Errors
    /// The line of a quotation mark that is never closed.
    fn record(&mut self) -> Result<Option<(usize, Vec<String>)>, usize> {
        while !self.rest.is_empty() {
            let line = self.line;
            let mut values = Vec::new();
            loop {
                values.push(self.value()?);
                if !self.skip(",") {
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

    fn value(&mut self) -> Result<String, usize> {
        let mut value = String::new();
        if self.skip("\"") {
            let opened = self.line;
            loop {
                let end = self.rest.find('"').ok_or(opened)?;
                self.take(end, &mut value);
                self.skip("\"");
                if !self.skip("\"") {
                    break;
                }
                value.push('"');
            }
        }
        // Also text after a closing mark belongs to the value.
        let end = self.rest.find([',', '\n', '\r']);
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
