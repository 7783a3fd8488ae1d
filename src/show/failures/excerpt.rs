//! Which of a job's logs tells most, and what it means that none tells anything.

use std::path::Path;

use super::patterns::{Found, Patterns, read_tail, tells_more};
use crate::gather::logs::LogFiles;
use crate::model::state::{Reason, TaskRow, TaskStatus};

/// Finds the line of both logs that tells most; of two that say as much that of the error log. None:
/// there are no logs, or they are empty or cannot be read.
pub fn excerpt<'f, 'p>(
    files: &'f LogFiles,
    patterns: &'p Patterns,
) -> Option<(&'f Path, Found<'p>)> {
    let of = |path: &'f Path| {
        let tail = read_tail(path).ok().flatten()?;
        Some((path, patterns.telling(&tail)?))
    };
    match (of(&files.error), of(&files.output)) {
        (Some(error), Some(output)) if !tells_more(&error.1, &output.1) => Some(output),
        (Some(error), _) => Some(error),
        (None, output) => output,
    }
}

/// Says that a failed job has left no log, or an empty one, and what that may mean. None: it has left one, or that is
/// not known.
pub fn silence(row: &TaskRow, files: &LogFiles) -> Option<String> {
    if row.status != TaskStatus::Failed {
        return None;
    }
    let sizes = files.iter().map(|(_, path)| size(path));
    let sizes = sizes.collect::<Option<Vec<_>>>()?;
    let sizes: Vec<u64> = sizes.into_iter().flatten().collect();
    let dir = files.output.parent().unwrap_or(&files.output).display();
    match row.reason? {
        _ if sizes.is_empty() && row.facts.started_at.is_none() => {
            Some("there is none: the job never ran".to_owned())
        }
        Reason::ExitCode | Reason::NoOutput | Reason::OutOfMemory | Reason::Timeout
            if sizes.is_empty() =>
        {
            Some(format!(
                "no log was written: is {dir} full, or not to be reached from the node?"
            ))
        }
        _ if sizes.is_empty() => Some("there is none".to_owned()),
        // What is killed need not have said anything.
        Reason::ExitCode | Reason::NoOutput if sizes.iter().all(|size| *size == 0) => Some(
            format!("its logs are empty: the job said nothing, or {dir} was full"),
        ),
        _ => None,
    }
}

/// Returns a file's size; inner none: there is none. None: not known.
#[expect(clippy::option_option, reason = "an error is not an absence")]
fn size(path: &Path) -> Option<Option<u64>> {
    match path.metadata() {
        Ok(metadata) => Some(Some(metadata.len())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::{at, row};

    #[test]
    fn a_job_that_ran_and_left_no_log_asks_for_the_disk() {
        let tmp = tempfile::tempdir().unwrap();
        let files = LogFiles {
            output: tmp.path().join("x.out"),
            error: tmp.path().join("x.err"),
        };
        let ran = |reason| {
            let mut row = row("p", TaskStatus::Failed, reason);
            row.facts.started_at = Some(at(1));
            row
        };
        let said = |reason| silence(&ran(reason), &files);
        assert!(
            said(Reason::Timeout)
                .unwrap()
                .starts_with("no log was written")
        );
        assert_eq!(said(Reason::Cancelled).unwrap(), "there is none");
        let never = row("p", TaskStatus::Failed, Reason::Cancelled);
        let never = |files| silence(&never, files);
        assert_eq!(never(&files).unwrap(), "there is none: the job never ran");
        std::fs::write(&files.output, "").unwrap();
        std::fs::write(&files.error, "").unwrap();
        assert!(
            said(Reason::ExitCode)
                .unwrap()
                .starts_with("its logs are empty")
        );
        assert_eq!(said(Reason::Timeout), None);
        std::fs::write(&files.error, "x").unwrap();
        assert_eq!(said(Reason::ExitCode), None);
    }
}
