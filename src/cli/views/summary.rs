//! The numbers of a `run`.

use crate::base::text::plural;
use crate::cli::output::Printer;
use crate::decide::manifest::{Decision, Manifest, Skip};
use crate::show::tables;

/// The numbers of a `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSummary {
    pub sessions: usize,
    pub tasks: usize,
    pub complete: usize,
    /// Complete tasks with newer sessions or input files.
    pub stale: usize,
    /// Includes tasks held back by limits and pauses.
    pub due: usize,
    /// With `dry_run`, the number that would be.
    pub submitted: usize,
    /// Submissions that were certainly not accepted, by cause.
    pub refused: Vec<(String, usize)>,
    /// Submissions that may have been accepted; the next pass looks for them.
    pub in_doubt: usize,
    /// Tasks neither complete nor submitted, by reason.
    pub held_back: Vec<(String, usize)>,
    pub dry_run: bool,
}

impl RunSummary {
    /// The numbers of a manifest; submissions are added later.
    pub fn of(sessions: usize, manifest: &Manifest) -> Self {
        let count = |is: fn(&Decision) -> bool| {
            let tasks = manifest.tasks.iter();
            tasks.filter(|task| is(&task.decision)).count()
        };
        Self {
            sessions,
            tasks: count(|decision| !matches!(decision, Decision::Skip(Skip::NotSelected))),
            complete: count(|decision| {
                matches!(
                    decision,
                    Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::LateInput)
                )
            }),
            stale: count(|decision| {
                matches!(decision, Decision::Skip(Skip::Stale(_) | Skip::LateInput))
            }),
            due: count(|decision| {
                matches!(
                    decision,
                    Decision::Submit(_) | Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_))
                )
            }),
            held_back: tables::reason_summary(manifest),
            ..Self::default()
        }
    }

    /// Adds tasks held back for a reason.
    pub fn hold_back(&mut self, why: &str, count: usize) {
        match self.held_back.iter_mut().find(|(known, _)| known == why) {
            Some((_, known)) => *known += count,
            None => self.held_back.push((why.to_owned(), count)),
        }
    }
}

/// Prints the numbers of a run. With `-q`, only if there were problems.
pub fn print_run_summary(printer: &mut Printer, summary: &RunSummary) {
    let refused: usize = summary.refused.iter().map(|(_, count)| count).sum();
    let held_back: usize = summary.held_back.iter().map(|(_, count)| count).sum();
    let went_wrong = refused > 0 || summary.in_doubt > 0;
    let mut head = format!(
        "{}, {}: {} complete, {} due, {} {}",
        plural(summary.sessions, "session"),
        plural(summary.tasks, "task"),
        summary.complete,
        summary.due,
        summary.submitted,
        if summary.dry_run {
            "would be submitted"
        } else {
            "submitted"
        },
    );
    for (count, what) in [(refused, "refused"), (summary.in_doubt, "in doubt")] {
        if count > 0 {
            head.push_str(&format!(", {count} {what}"));
        }
    }
    if printer.is_quiet() {
        if went_wrong {
            printer.warning(&head);
        }
        return;
    }
    printer.info(&head);
    if summary.stale > 0 {
        printer.note(&format!(
            "{} complete but stale: new sessions or input files arrived after it ran (`session-status` shows where; \
             `rerun_when_stale` runs such tasks again)",
            plural(summary.stale, "task")
        ));
    }
    print_group(printer, "refused", refused, &summary.refused);
    print_group(printer, "not submitted", held_back, &summary.held_back);
}

fn print_group(printer: &mut Printer, name: &str, total: usize, counts: &[(String, usize)]) {
    if counts.is_empty() {
        return;
    }
    printer.info(&format!("{name}: {total}"));
    for (reason, count) in counts {
        printer.info(&format!("{count:>8}  {reason}"));
    }
}
