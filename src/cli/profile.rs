//! What looking at the data trees has cost: `-v` tells it per root, `--trace-scan` per directory.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::args::Global;
use super::error::Failure;
use super::output::{Printer, Verbosity};
use super::outside::refuse_data;
use crate::gather::disk::cost::{RootCost, ScanCost};
use crate::model::bids::SessionSource;
use crate::model::config::Config;

/// Opens the account of a call and its trace; none if nobody asks for it.
///
/// # Errors
/// A trace that cannot be written, or would replace a file.
pub fn account(config: &Config, global: &Global) -> Result<Option<ScanCost>, Failure> {
    let is_wanted = global.verbosity() >= Verbosity::Verbose
        || global.trace_scan.is_some()
        || config.metrics_file.is_some();
    if !is_wanted {
        return Ok(None);
    }
    let mut roots = vec![
        ("bids_root", config.bids_root.as_path()),
        ("derivatives_root", &config.derivatives_root),
    ];
    if config.sessions == SessionSource::Dicom {
        roots.push(("dicom_root", &config.dicom_root));
    }
    let account = ScanCost::of(&roots);
    let Some(path) = &global.trace_scan else {
        return Ok(Some(account));
    };
    refuse_data(config, path, "")?;
    match open(path) {
        Ok(file) => Ok(Some(account.traced(file))),
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
pub fn tell(account: &ScanCost, global: &Global, printer: &mut Printer) {
    for spent in account.spent() {
        if spent.calls > 0 {
            printer.detail(&line(&spent));
        }
    }
    if let Err(error) = account.finish() {
        let path = global.trace_scan.as_deref().unwrap_or(Path::new(""));
        let path = path.display();
        printer.warning(&format!("the trace {path} is incomplete: {error}"));
    }
}

fn line(spent: &RootCost) -> String {
    let some = |count: u64, what: &str| match count {
        0 => String::new(),
        count => format!(", {count} {what}"),
    };
    let absent = some(spent.absent, "not there");
    let unreadable = some(spent.unreadable, "unreadable");
    format!(
        "{} {}: {} directories read{absent}{unreadable}, {} calls, {:.3} s in them (all threads together)",
        spent.key,
        spent.root.display(),
        spent.directories,
        spent.calls,
        spent.waited.as_secs_f64()
    )
}
