//! The decision for commands that only look: by the stored rows and the disk, without the queue.

use super::context::{Context, tell_stops};
use super::error::Failure;
use super::output::Printer;
use super::pause::{Tense, tell_pauses};
use super::policy::Purpose;
use super::progress::Progress;
use crate::act::pass::Pauses;
use crate::act::pass::decide::Basis;
use crate::base::sys;
use crate::base::text::{few, plural};
use crate::decide::manifest::{Manifest, Policy, Selection};
use crate::decide::safety;
use crate::decide::safety::roots;
use crate::gather::sessions::discover::Discovery;
use crate::model::bids::Session;

impl Context {
    /// Does what [`Context::decide`] does and tells what the next run will hold back: for commands that show what is
    /// to come.
    pub fn plan(
        &self,
        selection: Selection,
        recheck: bool,
        printer: &mut Printer,
    ) -> Result<(Discovery, Manifest), Failure> {
        let (found, manifest, pauses) = self.decide(selection, recheck, printer)?;
        let odd = found.notes.len() + found.misspelt.len();
        if found.sessions.is_empty() {
            // They may say why.
            self.tell_odd_names(&found, printer);
        } else if odd > 0 {
            let notes = plural(odd, "note");
            printer.note(&format!(
                "{notes} on names in the data: `snbb-scheduler check` shows them"
            ));
        }
        tell_pauses(self, &pauses, Some(&manifest), Tense::NextRun, printer);
        Ok((found, manifest))
    }

    /// Finds the sessions and decides about their tasks, by the stored rows and the disk: for
    /// commands that only look.
    pub fn decide(
        &self,
        selection: Selection,
        recheck: bool,
        printer: &mut Printer,
    ) -> Result<(Discovery, Manifest, Pauses), Failure> {
        let state = self.read_state(printer)?;
        let policy = self.policy(selection, Purpose::Show { recheck })?;
        let mut stops = roots::safety_stops(&self.config, &state, roots::observe);
        let found = self.discover(printer)?;
        self.tell_unmatched(&policy, &found, printer);
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
        progress.finish();
        let mut judged = judged?;
        judged.counts.count_sessions(&found);
        let late = safety::before_submission(&self.config, &judged.counts, &state);
        stops.extend(late);
        tell_stops(&stops, printer);
        Ok((found, judged.manifest, judged.pauses))
    }

    /// Tells which entries of `include` and `exclude` name nothing that there is.
    pub fn tell_unmatched(&self, policy: &Policy, found: &Discovery, printer: &mut Printer) {
        // What could not be read may hold their sessions.
        if !found.unreadable.is_empty() {
            return;
        }
        let unmatched = policy.cohort.unmatched(&found.sessions);
        if unmatched.is_empty() {
            return;
        }
        let entries: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
        printer.warning(&format!("matches no session: {}", few(&entries, 3)));
    }
}

/// Shows how far the decision about sessions is: it looks at one subject after the other.
pub fn subjects_progress(sessions: &[Session], printer: &mut Printer) -> Progress {
    let subjects = sessions.chunk_by(|a, b| a.subject == b.subject).count();
    printer.progress(Some(subjects as u64), "looking at outputs")
}
