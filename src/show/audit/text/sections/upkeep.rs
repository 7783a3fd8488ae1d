//! The lists about maintenance: DICOM directories, jobs, rows, scripts, unreadable sources.

use super::{List, of_task, plural, row};
use crate::base::sys::local_time;
use crate::base::text::maybe;
use crate::show::audit::report::{DicomProblem, OrphanCause, Report};

/// All of them, the most urgent first.
pub(crate) const LISTS: [fn(&Report) -> List; 6] =
    [unreadable, stale, dicom, scripts, orphans, unknown_jobs];

pub(crate) fn unreadable(report: &Report) -> List {
    let items = report.unreadable.iter();
    let rows = items.map(|item| row![item.part, item.path, item.error]);
    let title = "unreadable: the figures are incomplete";
    List::new(title, "part | $path | error", rows)
}

pub(crate) fn dicom(report: &Report) -> List {
    let dicom = report.dicom.as_ref();
    let least = dicom.map_or(0, |dicom| dicom.min_files);
    let findings = dicom.iter().flat_map(|dicom| &dicom.findings);
    let rows = findings.map(|finding| {
        let problem = match finding.problem {
            DicomProblem::Missing => "missing".to_owned(),
            DicomProblem::FewFiles => {
                let files = plural(finding.files.unwrap_or(0) as usize, "file");
                format!("{files}, at least {least} expected")
            }
            DicomProblem::Unreadable => {
                format!("unreadable: {}", finding.error.as_deref().unwrap_or("?"))
            }
        };
        let path = finding.path.as_deref().unwrap_or_default();
        row![finding.subject, finding.session, problem, path]
    });
    let columns = "subject | session | problem | $path";
    let list = List::new("DICOM directories", columns, rows);
    list.note(dicom.map(|dicom| {
        let (sessions, bad) = (plural(dicom.checked, "session"), dicom.findings.len());
        let files = plural(least as usize, "file");
        format!("{sessions} checked, {bad} with a problem; at least {files} expected in each")
    }))
}

pub(crate) fn stale(report: &Report) -> List {
    let rows = report.stale.iter().map(|job| {
        of_task(
            &job.key,
            row![
                maybe("", job.job_id.as_ref(), ""),
                job.status,
                maybe("", job.reason, ""),
                local_time(job.submitted_at),
                format!("{} days {} h", job.hours / 24, job.hours % 24),
            ],
        )
    });
    let columns =
        "procedure | subject | session | job | status | reason | submitted | >in flight for";
    List::new("stale jobs", columns, rows)
}

pub(crate) fn orphans(report: &Report) -> List {
    let rows = report.orphans.rows.iter().map(|row| {
        let cause = match row.cause {
            OrphanCause::Procedure => "the configuration has no such procedure",
            OrphanCause::Session => "no such subject or session",
            OrphanCause::Scope => "the procedure has a different scope now",
        };
        let job = maybe("", row.job_id.as_ref(), "");
        of_task(&row.key, row![row.status, job, cause])
    });
    let columns = "procedure | subject | session | status | job | cause";
    List::new("rows without a task", columns, rows)
}

pub(crate) fn unknown_jobs(report: &Report) -> List {
    let jobs = report.orphans.jobs.iter().flatten();
    let rows = jobs.map(|job| {
        let state = job.slurm_state.as_deref().unwrap_or_default();
        row![job.job_id, job.name, state]
    });
    List::new("jobs without a row", "job | $name | state", rows)
}

pub(crate) fn scripts(report: &Report) -> List {
    let rows = report.scripts.iter().map(|script| {
        let lines = script.lines.iter();
        let lines = lines.map(|line| format!("line {}: {}", line.number, line.text));
        let lines = lines.collect::<Vec<_>>().join(", ");
        let lines = maybe(" (", Some(lines).filter(|lines| !lines.is_empty()), ")");
        row![
            script.procedure,
            script.script,
            script.text.clone() + &lines
        ]
    });
    List::new("job scripts", "procedure | $script | problem", rows)
}
