//! The sections about what needs upkeep: DICOM directories, jobs, rows, scripts, what cannot be read.

use super::Text;
use crate::show::audit::report::{DicomProblem, OrphanCause};
use crate::show::audit::text::Align::{Left, Right};
use crate::show::tables::plural;

impl Text<'_> {
    pub(super) fn dicom(&mut self) {
        let Some(dicom) = &self.report.dicom else {
            return;
        };
        let rows: Vec<Vec<String>> = dicom
            .findings
            .iter()
            .map(|finding| {
                let text = match finding.problem {
                    DicomProblem::Missing => "missing".to_owned(),
                    DicomProblem::FewFiles => format!(
                        "{}, at least {} expected",
                        plural(finding.files.unwrap_or(0) as usize, "file"),
                        dicom.min_files
                    ),
                    DicomProblem::Unreadable => {
                        format!("unreadable: {}", finding.error.as_deref().unwrap_or("?"))
                    }
                };
                vec![
                    finding.subject.to_string(),
                    finding.session.to_string(),
                    text,
                    finding.path.clone().unwrap_or_default(),
                ]
            })
            .collect();
        let is_fine = rows.is_empty();
        let header = vec![
            ("subject", Left),
            ("session", Left),
            ("problem", Left),
            ("path", Left),
        ];
        self.list("DICOM directories", header, rows);
        if is_fine && !self.has("tasks") {
            self.line(format!(
                "DICOM directories of {}: nothing to report",
                plural(dicom.checked, "session")
            ));
        }
    }

    pub(super) fn jobs(&mut self) {
        let stale = self.report.stale.iter().map(|job| {
            vec![
                job.procedure.to_string(),
                job.subject.to_string(),
                job.session.to_string(),
                job.job_id.as_deref().unwrap_or_default().to_owned(),
                job.status.to_owned(),
                job.reason.unwrap_or_default().to_owned(),
                format!("{} days {} h", job.hours / 24, job.hours % 24),
            ]
        });
        let stale = stale.collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("job", Left),
            ("status", Left),
            ("reason", Left),
            ("in flight for", Right),
        ];
        self.list("stale jobs", header, stale);
        let rows = self.report.orphans.rows.iter().map(|row| {
            let cause = match row.cause {
                OrphanCause::Procedure => "the configuration has no such procedure",
                OrphanCause::Session => "there is no such subject or session",
                OrphanCause::Scope => "the procedure has another scope",
            };
            vec![
                row.procedure.to_string(),
                row.subject.to_string(),
                row.session.to_string(),
                row.status.to_owned(),
                row.job_id.as_deref().unwrap_or_default().to_owned(),
                cause.to_owned(),
            ]
        });
        let rows = rows.collect();
        let header = vec![
            ("procedure", Left),
            ("subject", Left),
            ("session", Left),
            ("status", Left),
            ("job", Left),
            ("why", Left),
        ];
        self.list("rows without task", header, rows);
        let jobs = self.report.orphans.jobs.iter().flatten().map(|job| {
            vec![
                job.job_id.to_string(),
                job.name.clone(),
                job.slurm_state.as_deref().unwrap_or_default().to_owned(),
            ]
        });
        let jobs = jobs.collect();
        let header = vec![("job", Left), ("name", Left), ("state", Left)];
        self.list("living jobs without task", header, jobs);
    }

    pub(super) fn scripts(&mut self) {
        let rows = self.report.scripts.iter().map(|script| {
            let lines = script.lines.iter();
            let lines: Vec<String> = lines
                .map(|line| format!("line {}: {}", line.number, line.text))
                .collect();
            let text = if lines.is_empty() {
                script.text.clone()
            } else {
                format!("{} ({})", script.text, lines.join(", "))
            };
            vec![script.procedure.to_string(), script.script.clone(), text]
        });
        let rows = rows.collect();
        let header = vec![("procedure", Left), ("script", Left), ("problem", Left)];
        self.list("job scripts", header, rows);
    }

    pub(super) fn unreadable(&mut self) {
        let rows = self
            .report
            .unreadable
            .iter()
            .map(|what| vec![what.part.to_owned(), what.path.clone(), what.error.clone()]);
        let rows = rows.collect();
        let header = vec![("part", Left), ("path", Left), ("error", Left)];
        self.list(
            "could not be read: the figures are not the whole truth",
            header,
            rows,
        );
    }
}
