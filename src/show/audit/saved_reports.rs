//! Saved reports: `audit_YYYYMMDD_HHMMSS.json` (UTC) below `audit.report_dir`.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the directory of earlier reports"
)]

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDateTime, Utc};

use super::report::{Report, UnreadableItem};
use super::trend::Snapshot;
use crate::base::durable;
use crate::base::regular::error_text;

const NAME: &str = "audit_%Y%m%d_%H%M%S.json";

/// Earlier reports that are tried for the comparison.
const TRIES: usize = 50;

/// The newest report of the same selection from an earlier day, with its path, and the unreadable files.
/// Reports of other formats are ignored.
pub fn earlier(
    dir: &Path,
    selection: Option<&str>,
    now: DateTime<Utc>,
) -> (Option<(PathBuf, Snapshot)>, Vec<UnreadableItem>) {
    let mut unreadable = Vec::new();
    let mut add_unreadable = |path: &Path, error: &io::Error| {
        unreadable.push(UnreadableItem::new("reports", path, error_text(error)));
    };
    let mut reports = list(dir).unwrap_or_else(|error| {
        if error.kind() != ErrorKind::NotFound {
            add_unreadable(dir, &error);
        }
        Vec::new()
    });
    reports.retain(|(time, _)| time.date() < now.date_naive());
    reports.sort();
    for (_, path) in reports.into_iter().rev().take(TRIES) {
        match std::fs::read(&path) {
            Ok(bytes) => {
                let snapshot = Snapshot::read(&bytes);
                let fits = snapshot.filter(|s| s.study.selection.as_deref() == selection);
                if let Some(snapshot) = fits {
                    return (Some((path, snapshot)), unreadable);
                }
            }
            Err(error) => add_unreadable(&path, &error),
        }
    }
    (None, unreadable)
}

fn list(dir: &Path) -> io::Result<Vec<(NaiveDateTime, PathBuf)>> {
    let entries = std::fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    let reports = entries.iter().filter_map(|entry| {
        let name = entry.file_name();
        let time = NaiveDateTime::parse_from_str(name.to_str()?, NAME).ok()?;
        Some((time, entry.path()))
    });
    Ok(reports.collect())
}

/// Saves a report under its time and returns the path. Replaces an earlier one of the same second.
pub fn save(dir: &Path, report: &Report) -> Result<PathBuf, (PathBuf, io::Error)> {
    std::fs::create_dir_all(dir).map_err(|error| (dir.to_owned(), error))?;
    let path = dir.join(report.study.created_at.format(NAME).to_string());
    let bytes = report
        .to_json()
        .map_err(|error| (path.clone(), error.into()))?;
    replace(&path, &bytes)?;
    Ok(path)
}

/// Texts that identify an earlier report: the title of a text or page, or the first key of JSON.
const MARKS: [&str; 2] = ["Audit of ", "{\"format\":"];

/// Replaces a file atomically. A new file follows the umask.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), (PathBuf, io::Error)> {
    let write = || {
        // A link stays a link.
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
        if std::fs::metadata(&target).is_ok_and(|metadata| !metadata.is_file()) {
            // A device or pipe (/dev/stdout) is written to, not replaced.
            return std::fs::File::options()
                .write(true)
                .open(&target)?
                .write_all(bytes);
        }
        let [text, json] = MARKS.map(|mark| durable::refuse_foreign(&target, mark));
        if json.is_err() {
            text?;
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(".audit-");
        // The umask is applied to this mode.
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut file = builder.tempfile_in(dir.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        if let Ok(old) = std::fs::metadata(&target) {
            file.as_file().set_permissions(old.permissions())?;
        }
        file.persist(&target)?;
        Ok(())
    };
    write().map_err(|error: io::Error| (path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;
    use crate::show::audit::testing::report;

    #[test]
    fn the_newest_report_of_an_earlier_day_and_the_same_selection_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let now = report().study.created_at + Duration::days(9);
        let save_at = |days: i64, selection: Option<&str>| {
            let mut report = report();
            report.study.created_at = now - Duration::days(days);
            report.study.selection = selection.map(str::to_owned);
            save(dir.path(), &report).unwrap()
        };
        assert_eq!(earlier(dir.path(), None, now).0, None);
        save_at(0, None);
        assert_eq!(
            earlier(dir.path(), None, now).0,
            None,
            "today does not count"
        );
        save_at(5, None);
        let newest = save_at(3, None);
        save_at(2, Some("--subject x"));
        let other = "audit_20260101_000000.json.tmp";
        std::fs::write(dir.path().join(other), "x").unwrap();
        // The Python program used the same file names.
        let python = (now - Duration::days(1)).format(NAME).to_string();
        std::fs::write(dir.path().join(python), r#"{"timestamp": "x"}"#).unwrap();
        let (found, unreadable) = earlier(dir.path(), None, now);
        assert_eq!(found.map(|(path, _)| path), Some(newest));
        assert_eq!(unreadable, []);
        let (found, _) = earlier(dir.path(), Some("--subject x"), now);
        assert!(found.is_some());
        assert_eq!(
            earlier(&dir.path().join("none"), None, now),
            (None, Vec::new())
        );
    }

    #[test]
    fn a_file_is_replaced_atomically_and_keeps_its_mode_and_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("real.json");
        let link = dir.path().join("link.json");
        std::fs::write(&file, "Audit of x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(dir.path().read_dir().unwrap().count(), 2, "nothing is left");
        std::fs::write(&file, "my thesis").unwrap();
        replace(&link, b"new").unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"my thesis");
        let (path, _) = replace(&dir.path().join("none/x"), b"").unwrap_err();
        assert!(path.ends_with("none/x"));
        replace(Path::new("/dev/null"), b"x").unwrap();
    }
}
