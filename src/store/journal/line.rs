//! Converts journal entries to lines, and any bytes to entries or to the position of damage.
//!
//! A line is `{"crc":"<8 hex>","batch":<offset>,"entry":{...}}`. The checksum is the CRC-32 of
//! everything after its comma; `batch` is the length of the file when the append began.
//! Pure; never panics on any bytes.

use serde::{Deserialize, Serialize};

use super::{Entry, Salvaged};

/// Adds the line of an entry, newline included.
pub(super) fn write(out: &mut Vec<u8>, batch: u64, entry: &Entry) {
    let record = Record { batch, entry };
    // Serializing numbers, texts and options into memory cannot fail; the next reader would find an
    // empty line as damage.
    let text = serde_json::to_string(&record).unwrap_or_default();
    let rest = text.strip_prefix('{').unwrap_or_default();
    out.extend_from_slice(HEAD);
    out.extend_from_slice(checksum(rest.as_bytes()).as_bytes());
    out.extend_from_slice(NECK);
    out.extend_from_slice(rest.as_bytes());
    out.push(b'\n');
}

/// Parses the bytes of a journal.
///
/// Ignores what a crash can leave: a cut or garbled last line, zeros at the end, and garbled lines
/// within the last append (the pages of one write reach the disk in any order). Everything else is
/// damage; then all readable lines count.
pub(super) fn scan(bytes: &[u8]) -> Salvaged {
    let zeros = bytes.iter().rev().take_while(|&&byte| byte == 0).count();
    let text = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    let mut found = Salvaged::default();
    let mut entries_after = Vec::new();
    let mut batch_after = None;
    let (mut start, mut first_bad) = (0, 0);
    for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let body = line.strip_suffix(b"\n");
        match parse(body.unwrap_or(line)) {
            Ok((_, entry)) if found.damaged.is_empty() => {
                found.entries.push(entry);
                found.complete = start + line.len();
                found.lacks_newline = body.is_none();
            }
            Ok((batch, entry)) => {
                batch_after = Some(batch);
                entries_after.push(entry);
            }
            Err(problem) => {
                if found.damaged.is_empty() {
                    first_bad = start;
                }
                found.damaged.push((index + 1, problem));
            }
        }
        start += line.len();
    }
    // A file whose only line does not begin like one of a journal is not a journal.
    let begins = text.starts_with(HEAD) || HEAD.starts_with(text);
    let is_of_crash = match batch_after {
        Some(batch) => batch <= first_bad as u64,
        None => found.damaged.len() == 1 && (first_bad > 0 || begins),
    };
    match is_of_crash {
        true => found.damaged.clear(),
        false => found.entries.extend(entries_after),
    }
    found
}

const HEAD: &[u8] = b"{\"crc\":\"";
const NECK: &[u8] = b"\",";

fn parse(line: &[u8]) -> Result<(u64, Entry), String> {
    let rest = line.strip_prefix(HEAD);
    let (crc, rest) = rest
        .and_then(|rest| rest.split_at_checked(8))
        .and_then(|(crc, rest)| Some((crc, rest.strip_prefix(NECK)?)))
        .ok_or("it does not begin like a line of the journal")?;
    if crc != checksum(rest).as_bytes() {
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

fn checksum(rest: &[u8]) -> String {
    format!("{:08x}", crc32fast::hash(rest))
}

#[derive(Serialize, Deserialize)]
struct Record<E> {
    batch: u64,
    entry: E,
}
