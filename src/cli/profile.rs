//! What looking at the data trees has cost: `-v` tells it per root, `--trace-scan` per directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::error::Failure;
use super::output::Printer;
use crate::completion::account::{Account, Spent};
use crate::config::{Config, SessionSource};

/// Opens the account of a call, and its trace if one is wanted.
///
/// # Errors
/// A trace that cannot be written, or would replace a file.
pub fn account(config: &Config, trace: Option<&Path>) -> Result<Account, Failure> {
    let mut roots = vec![
        ("bids_root", config.bids_root.as_path()),
        ("derivatives_root", &config.derivatives_root),
    ];
    if config.sessions == SessionSource::Dicom {
        roots.push(("dicom_root", &config.dicom_root));
    }
    let account = Account::of(&roots);
    let Some(path) = trace else {
        return Ok(account);
    };
    match open(path) {
        Ok(file) => Ok(account.traced(file)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(Failure::Usage {
            message: format!("--trace-scan: {} exists already", path.display()),
            hint: "name a new file, or /dev/stderr".to_owned(),
        }),
        Err(error) => Err(Failure::Usage {
            message: format!("--trace-scan: cannot write {}: {error}", path.display()),
            hint: "name a new file in a directory that you may write to".to_owned(),
        }),
    }
}

/// Makes the file. A pipe or a terminal may be there already; a file of somebody's is not touched.
fn open(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => OpenOptions::new().write(true).open(path),
        _ => OpenOptions::new().write(true).create_new(true).open(path),
    }
}

/// Tells with `-v` what was spent per root, and ends the trace.
pub fn tell(account: &Account, trace: Option<&Path>, printer: &mut Printer) {
    for spent in account.spent() {
        if spent.calls > 0 {
            printer.detail(&line(&spent));
        }
    }
    if let Err(error) = account.finish() {
        let path = trace.unwrap_or(Path::new("")).display();
        printer.warning(&format!("the trace {path} is incomplete: {error}"));
    }
}

fn line(spent: &Spent) -> String {
    let absent = match spent.absent {
        0 => String::new(),
        absent => format!(", {absent} not there"),
    };
    format!(
        "{} {}: {} directories read{absent}, {} calls, {:.3} s in them (all threads together)",
        spent.key,
        spent.root.display(),
        spent.directories,
        spent.calls,
        spent.waited.as_secs_f64()
    )
}
