//! Is the state sound: every file readable, every row by the rules, nothing missing. Pure.
//!
//! Says what it finds and what to do about it; changes nothing.

mod rows;

use super::findings::{Findings, files};
use super::repair;
use super::sources::Sources;

pub use super::findings::{Finding, Level};

/// Judges everything. The files come first, then the rows.
pub fn verify(sources: &Sources) -> Vec<Finding> {
    let rebuilt = repair::rebuild(sources);
    let mut out = Findings::of_files(sources, rebuilt.state.len() + rebuilt.past);
    files::control_file(sources, &mut out);
    if let Some(contents) = sources.state.read() {
        let attempts = sources
            .attempts
            .read()
            .map_or(&[][..], |contents| &contents.rows);
        rows::rows(contents, attempts, &mut out);
        rows::missing_rows(&rebuilt, &mut out);
    }
    files::leftovers(sources, &mut out);
    out.list
}
