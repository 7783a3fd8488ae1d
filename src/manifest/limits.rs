//! Limits: how many of the due tasks a run may submit. The manifest itself knows no limits.

use super::{Decision, Limit, Manifest, Skip};
use crate::procedure::{ProcedureDag, ProcedureId};
use crate::state::State;

/// Holds the numbers that bound one run. None: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// `--max-jobs`
    pub max_jobs: Option<usize>,
    pub max_submit_per_run: Option<usize>,
    pub max_in_flight: Option<usize>,
}

/// Turns due tasks beyond the limits into skipped ones, in the manifest's order.
pub fn apply(manifest: &mut Manifest, limits: &Limits, dag: &ProcedureDag, rows: &State) {
    let mut in_flight = rows.rows().iter().filter(|row| row.is_in_flight()).count();
    let mut by_procedure: Vec<usize> = dag
        .iter()
        .map(|(_, procedure)| {
            rows.rows()
                .iter()
                .filter(|row| row.is_in_flight() && row.key.procedure == procedure.name)
                .count()
        })
        .collect();
    let mut submitted = 0;
    for task in &mut manifest.tasks {
        if !matches!(task.decision, Decision::Submit(_)) {
            continue;
        }
        let own = by_procedure[task.procedure.index()];
        match reached(limits, dag, task.procedure, submitted, in_flight, own) {
            Some(limit) => task.decision = Decision::Skip(Skip::OverLimit(limit)),
            None => {
                submitted += 1;
                in_flight += 1;
                by_procedure[task.procedure.index()] += 1;
            }
        }
    }
}

fn reached(
    limits: &Limits,
    dag: &ProcedureDag,
    procedure: ProcedureId,
    submitted: usize,
    in_flight: usize,
    own: usize,
) -> Option<Limit> {
    let full = |limit: Option<usize>, count: usize| limit.filter(|limit| count >= *limit);
    None.or_else(|| full(limits.max_jobs, submitted).map(Limit::MaxJobs))
        .or_else(|| full(limits.max_submit_per_run, submitted).map(Limit::MaxSubmitPerRun))
        .or_else(|| full(limits.max_in_flight, in_flight).map(Limit::MaxInFlight))
        .or_else(|| {
            full(dag.get(procedure).rules.max_in_flight, own).map(Limit::ProcedureMaxInFlight)
        })
}
