//! Turns the due tasks of a manifest into requests, some of them grouped into arrays.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::{AttemptNumbers, Pass};
use crate::decide::manifest::{Decision, Due, Manifest};
use crate::decide::request;
use crate::decide::request::{Batch, Prepared, RequestContext, batch};
use crate::executor::ExecutorError;
use crate::executor::script::header_of;
use crate::model::procedure::ArrayMode;
use crate::model::procedure::options::Arguments;
use crate::model::state::State;

/// Per procedure: the error about its script, and the number of tasks it holds back.
pub type MissingScripts = BTreeMap<Arc<str>, (ExecutorError, usize)>;

impl Pass<'_> {
    /// Builds the requests of all due tasks whose scripts exist; the others are counted by procedure,
    /// and left out unless this is a preview.
    pub(super) fn prepare(
        &self,
        manifest: &Manifest,
        history: &AttemptNumbers,
        state: &State,
        is_preview: bool,
    ) -> (Vec<Prepared>, MissingScripts) {
        // Also for procedures without due tasks: a typing error should show at once.
        let mut missing: MissingScripts = self
            .config
            .procedures
            .iter()
            .filter_map(|(_, procedure)| {
                let error = self.executor.find_script(&procedure.script).err()?;
                Some((Arc::clone(&procedure.name), (error, 0)))
            })
            .collect();
        let mut tasks = Vec::new();
        let unread = Arguments::default();
        let mut headers: BTreeMap<&str, Arguments> = BTreeMap::new();
        let now = (self.clock)();
        for planned in manifest.due() {
            let procedure = self.config.procedures.get(planned.procedure);
            if let Some((_, count)) = missing.get_mut(&procedure.name) {
                *count += 1;
                if !is_preview {
                    continue;
                }
            }
            let key = &planned.key;
            let (attempt, last_reason) = history.next(key);
            let is_retry = matches!(planned.decision, Decision::Submit(Due::Retry { .. }));
            let script = if is_retry {
                headers.entry(&procedure.script).or_insert_with(|| {
                    let path = self.executor.find_script(&procedure.script);
                    path.map(|path| header_of(&path)).unwrap_or_default()
                })
            } else {
                &unread
            };
            tasks.push(request::prepare(
                self.config,
                planned,
                &RequestContext {
                    project: self.project,
                    attempt,
                    last_reason,
                    row: state.get(key),
                    script,
                    now,
                    run_id: self.run_id,
                },
            ));
        }
        (tasks, missing)
    }

    /// Groups tasks that can be submitted together into arrays, if configured.
    pub(super) fn group(&mut self, tasks: Vec<Prepared>, dir: &Path) -> Vec<Batch> {
        let procedures = &self.config.procedures;
        let mode = |name: &str| match procedures.find(name) {
            Some(id) => {
                let rules = &procedures.get(id).rules;
                (rules.array, rules.array_throttle)
            }
            None => (ArrayMode::Never, None),
        };
        batch::group(tasks, &mode, &mut || self.executor.array_limit(), dir)
    }
}
