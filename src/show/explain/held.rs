//! What holds a task back beside its decision: safety stops, pauses, limits.

use super::{View, next::is_over};
use crate::decide::manifest::{Decision, Limit, Planned, Skip};
use crate::show::tables::decision_text;

impl View<'_> {
    /// Names the safety stops, the pause, and the limits that are used up, whether the task is due or not.
    pub(super) fn held_by(&self, procedure: &str, planned: &Planned) -> Vec<String> {
        if is_over(&planned.decision) {
            return Vec::new();
        }
        let stops = self.stops.iter();
        let mut held: Vec<String> = stops
            .map(|stop| format!("a safety stop: {}", stop.message))
            .collect();
        if let Some(pause) = self.control.pause_of(procedure) {
            let what = match &self.control.study.paused {
                Some(_) => "the study is ",
                None => "the procedure is ",
            };
            let paused = Decision::Skip(Skip::Paused(Box::new(pause.clone())));
            held.push(format!("{what}{}", decision_text(&paused)));
        }
        // Those of jobs in flight are told with their figures.
        if let Decision::Skip(Skip::OverLimit(limit)) = &planned.decision
            && !matches!(
                limit,
                Limit::MaxInFlight(_) | Limit::ProcedureMaxInFlight(_)
            )
        {
            held.push(decision_text(&planned.decision));
        }
        let flying = |of: Option<&str>| {
            let rows = self.state.rows().iter().filter(|row| row.is_in_flight());
            rows.filter(|row| of.is_none_or(|name| *row.key.procedure == *name))
                .count()
        };
        let rules = self.config.procedures.find(procedure);
        let own = rules.and_then(|id| self.config.procedures.get(id).rules.max_in_flight);
        for (limit, of, name) in [
            (self.config.max_in_flight, None, "max_in_flight"),
            (own, Some(procedure), "the procedure's max_in_flight"),
        ] {
            if let Some(limit) = limit
                && flying(of) >= limit
            {
                held.push(format!("{name}: {} of {limit} are in flight", flying(of)));
            }
        }
        held
    }
}
