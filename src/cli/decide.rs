//! The decision of commands that only read: from the stored rows and the disk, without the queue.

use super::context::warn_stops;
use super::pause::report_pauses;
use crate::gather::disk::Unreadable;
use indicatif::ProgressBar;

use super::{Context, Printer, Result, Selection, few, sys};
use crate::act::pass::Pauses;
use crate::act::pass::decide::Basis;
use crate::decide::manifest::{Manifest, Policy};
use crate::decide::safety::{self, roots};
use crate::gather::sessions::discover::Discovery;
use crate::gather::sessions::lists;
use crate::model::bids::Session;

impl Context {
    /// The configured policy, with late input in all procedures. `recheck`: check complete rows, however long the
    /// configuration trusts them.
    pub fn policy(&self, selection: Selection, recheck: bool) -> Result<Policy> {
        Ok(Policy {
            selection,
            force: false,
            resubmit_failed: self.config.resubmit_failed,
            cohort: lists::load(&self.config.cohort)?,
            reports_late_input: true,
            host: sys::host_name(),
            rechecks_all: recheck,
            away: None,
        })
    }

    /// [`Context::decide`], with a report of the pauses that hold tasks back: for commands that show what is due.
    pub fn plan(
        &self,
        selection: Selection,
        recheck: bool,
        printer: &mut Printer,
    ) -> Result<(Discovery, Manifest)> {
        let (found, manifest, pauses) = self.decide(selection, recheck, printer)?;
        if found.sessions.is_empty() {
            // They may explain why.
            self.report_unusual_names(&found, printer);
        } else if !found.notes.is_empty() || !found.misspelt.is_empty() {
            printer.note("some names in the data are unusual or not valid BIDS (`snbb-scheduler check` shows which)");
        }
        report_pauses(self, &pauses, Some(&manifest), printer);
        Ok((found, manifest))
    }

    /// Finds the sessions and decides about their tasks, from the stored rows and the disk.
    pub fn decide(
        &self,
        selection: Selection,
        recheck: bool,
        printer: &mut Printer,
    ) -> Result<(Discovery, Manifest, Pauses)> {
        let state = self.read_state(printer)?;
        let policy = self.policy(selection, recheck)?;
        let mut stops = roots::safety_stops(&self.config, &state, roots::observe);
        let mut found = self.discover(printer)?;
        self.warn_unmatched(&policy, &found, printer);
        let probe = self.probe()?;
        let control = self.store.read_control()?;
        let basis = Basis {
            config: &self.config,
            store: &self.store,
            state: &state,
            sessions: &found.sessions,
            completions: &probe,
            policy: &policy,
            control: &control,
            queue: None,
            now: sys::now(),
        };
        let progress = subjects_progress(&found.sessions, printer);
        let judged = basis.decide(&|| progress.inc(1));
        progress.finish_and_clear();
        let mut judged = judged?;
        judged.counts.count_sessions(&found);
        let late = safety::before_submission(&self.config, &judged.counts, &state);
        stops.extend(late);
        warn_stops(&stops, printer);
        // The status of tasks that have files in a root that is not mounted is unknown.
        let names: Vec<&str> = stops.iter().map(|stop| stop.name.as_str()).collect();
        let missing = self.config.roots().into_iter();
        let missing = missing.filter(|(name, _)| names.contains(&&*format!("root/{name}")));
        found.unreadable.extend(missing.map(|(_, root)| Unreadable {
            path: root.to_owned(),
            error: "missing or empty".to_owned(),
        }));
        Ok((found, judged.manifest, judged.pauses))
    }

    /// Warns of entries of `include` and `exclude` that match no session.
    pub fn warn_unmatched(&self, policy: &Policy, found: &Discovery, printer: &mut Printer) {
        let unmatched = policy.cohort.unmatched(&found.sessions);
        // Their sessions may be in what could not be read.
        if unmatched.is_empty() || !found.unreadable.is_empty() {
            return;
        }
        let entries: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
        printer.warning(&format!("matches no session: {}", few(&entries, 3)));
    }
}

/// Progress of the decision, which handles one subject at a time.
pub(super) fn subjects_progress(sessions: &[Session], printer: &mut Printer) -> ProgressBar {
    let subjects = sessions.chunk_by(|a, b| a.subject == b.subject).count();
    printer.progress(Some(subjects as u64), "checking outputs")
}
