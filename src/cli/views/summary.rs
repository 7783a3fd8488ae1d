//! What a `run` found and did, in figures.

use crate::base::text::plural;
use crate::cli::output::Printer;
use crate::decide::manifest::{Decision, Manifest, Skip};
use crate::show::tables;

/// Holds the figures of a `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSummary {
    pub sessions: usize,
    pub tasks: usize,
    pub complete: usize,
    /// Of the complete ones, those of subject scope that a session came after.
    pub stale: usize,
    /// Limits and pauses aside: such tasks are due, and held back.
    pub due: usize,
    /// With `dry_run`: how many would be.
    pub submitted: usize,
    /// Certainly not accepted, by cause.
    pub refused: Vec<(String, usize)>,
    /// May have been accepted; looked for at the next pass.
    pub in_doubt: usize,
    /// Neither complete nor submitted, by reason.
    pub held_back: Vec<(String, usize)>,
    pub dry_run: bool,
}

impl RunSummary {
    /// Counts what a manifest holds; what came of the submissions is filled in later.
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

    /// Adds tasks to those that are held back for the same reason.
    pub fn hold_back(&mut self, why: &str, count: usize) {
        match self.held_back.iter_mut().find(|(known, _)| known == why) {
            Some((_, known)) => *known += count,
            None => self.held_back.push((why.to_owned(), count)),
        }
    }
}

/// Tells what a run found and did. With `-q` only what went wrong.
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
    printer.talk(&head);
    if summary.stale > 0 {
        printer.note(&format!(
            "{} complete, but stale: sessions or input files have come since ('session-status' shows where; \
             rerun_when_stale runs them again)",
            plural(summary.stale, "task")
        ));
    }
    print_group(printer, "refused", refused, &summary.refused);
    print_group(printer, "held back", held_back, &summary.held_back);
}

fn print_group(printer: &mut Printer, name: &str, total: usize, counts: &[(String, usize)]) {
    if counts.is_empty() {
        return;
    }
    printer.talk(&format!("{name}: {total}"));
    for (reason, count) in counts {
        printer.talk(&format!("{count:>8}  {reason}"));
    }
}
