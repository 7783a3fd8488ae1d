//! Converts journal entries to lines, and any bytes to entries or to the position of damage.
//!
//! A line is `{"crc":"<8 hex>","batch":<offset>,"entry":{...}}`. The checksum is the CRC-32 of
//! everything after its comma; `batch` is the length of the file when the append began.
//! Pure; never panics on any bytes.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Entry, JournalError, Salvaged};

/// The contents of a journal.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub entries: Vec<Entry>,
    /// Length of the complete lines at the start, in bytes.
    pub complete: usize,
    /// True if the last line is complete except for its newline.
    pub lacks_newline: bool,
}

/// A damaged line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub line: usize,
    pub problem: String,
}

impl Damage {
    pub(super) fn at(self, path: &Path) -> JournalError {
        JournalError::Damaged {
            path: path.to_owned(),
            line: self.line,
            problem: self.problem,
        }
    }
}

/// True if the torn first line is the beginning of a journal; otherwise the file is not a journal.
fn begins(text: &[u8]) -> bool {
    text.starts_with(HEAD) || HEAD.starts_with(text)
}

/// Adds the line of an entry, newline included.
pub(super) fn write(out: &mut Vec<u8>, batch: u64, entry: &Entry) {
    let record = Record { batch, entry };
    // Serializing numbers, texts and options into memory cannot fail; the next reader would find an
    // empty line as damage.
    let text = serde_json::to_string(&record).unwrap_or_default();
    let rest = text.strip_prefix('{').unwrap_or_default();
    out.extend_from_slice(HEAD);
    out.extend_from_slice(format!("{:08x}", crc32fast::hash(rest.as_bytes())).as_bytes());
    out.extend_from_slice(NECK);
    out.extend_from_slice(rest.as_bytes());
    out.push(b'\n');
}

/// Parses the bytes of a journal.
///
/// Ignores what a crash can leave: a cut or garbled last line, zeros at the end, and garbled lines
/// within the last append (the pages of one write reach the disk in any order). Everything else is
/// damage.
pub(super) fn scan(bytes: &[u8]) -> Result<Scanned, Damage> {
    let text = without_zeros(bytes);
    let mut found = Scanned::default();
    let mut first_bad: Option<(usize, Damage)> = None;
    let mut bad_lines = 0;
    let mut batch_after = None;
    let mut start = 0;
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let body = line.strip_suffix(b"\n");
        match parse(body.unwrap_or(line)) {
            Ok((_, entry)) if first_bad.is_none() => {
                found.entries.push(entry);
                found.complete = start + line.len();
                found.lacks_newline = body.is_none();
            }
            Ok((batch, _)) => batch_after = Some(batch),
            Err(problem) => {
                bad_lines += 1;
                first_bad.get_or_insert_with(|| {
                    let line = index + 1;
                    (start, Damage { line, problem })
                });
            }
        }
        start += line.len();
    }
    match (first_bad, batch_after) {
        (None, _) => Ok(found),
        (Some((at, damage)), Some(batch)) => {
            if batch <= at as u64 {
                Ok(found)
            } else {
                Err(damage)
            }
        }
        (Some((at, _)), None) if bad_lines == 1 && (at > 0 || begins(text)) => Ok(found),
        (Some((_, damage)), None) => Err(damage),
    }
}

/// Reads every readable line. Finds damage in each journal in which [`scan`] finds some.
pub(super) fn salvage(bytes: &[u8]) -> Salvaged {
    let mut salvaged = Salvaged::default();
    let lines = without_zeros(bytes).split_inclusive(|&byte| byte == b'\n');
    for (index, line) in lines.enumerate() {
        match parse(line.strip_suffix(b"\n").unwrap_or(line)) {
            Ok((_, entry)) => salvaged.entries.push(entry),
            Err(problem) => salvaged.damaged.push((index + 1, problem)),
        }
    }
    salvaged
}

/// A journal without the zeros that a crash can leave at its end.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    bytes.get(..bytes.len() - zeros).unwrap_or_default()
}

const HEAD: &[u8] = b"{\"crc\":\"";
const NECK: &[u8] = b"\",";

fn parse(line: &[u8]) -> Result<(u64, Entry), String> {
    let split = || {
        let (crc, rest) = line.strip_prefix(HEAD)?.split_at_checked(8)?;
        let rest = rest.strip_prefix(NECK)?;
        // `from_str_radix` also accepts signs and capitals, which are never written.
        if !crc
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return None;
        }
        let crc = u32::from_str_radix(std::str::from_utf8(crc).ok()?, 16).ok()?;
        Some((crc, rest))
    };
    let (crc, rest) = split().ok_or("it does not begin like a line of the journal")?;
    if crc32fast::hash(rest) != crc {
        return Err("its checksum is wrong".to_owned());
    }
    let mut json = Vec::with_capacity(rest.len() + 1);
    json.push(b'{');
    json.extend_from_slice(rest);
    let record: Record<Entry> = serde_json::from_slice(&json).map_err(|error| {
        format!("it is complete but not understood ({error}); was it written by a newer version?")
    })?;
    Ok((record.batch, record.entry))
}

#[derive(Serialize, Deserialize)]
struct Record<E> {
    batch: u64,
    entry: E,
}
