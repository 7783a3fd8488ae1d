//! Reports whether Slurm would accept a job of each procedure.

use crate::executor::Refusal;
use crate::executor::slurm::inspect::Tried;
use crate::setup::check::Findings;
use crate::setup::check::scripts::DOS;

const GRES: &str = "correct the procedure's gres; `sinfo -o %G` lists available resources";
const LATER: &str = "try again later; if the problem remains, ask the administrator";

pub(super) fn report(procedure: &str, tried: &Tried, findings: &mut Findings) {
    findings.about("submission", procedure);
    let unknown = |why: &str| format!("cannot find out whether Slurm would accept a job: {why}");
    match tried {
        Tried::Fine(_) => findings.ok("Slurm would accept a job (sbatch --test-only)"),
        Tried::Refused { kind, message } => match kind {
            Refusal::Limit => findings.warning(
                format!("Slurm would not accept a job at the moment: {message}"),
                "nothing if it is a limit on queued jobs; otherwise ask the administrator",
            ),
            Refusal::Transient => findings.warning(unknown(message), LATER),
            _ => findings.error(
                format!("Slurm would refuse a job of this procedure: {message}"),
                remedy(message).unwrap_or(
                    "correct the procedure's options; until then, none of its tasks are submitted",
                ),
            ),
        },
        Tried::Unclear(message) => findings.warning(
            unknown(message),
            "check whether slurmctld responds (scontrol ping), then repeat this check",
        ),
        Tried::Submitted(job) => findings.error(
            format!("the sbatch of this site ignored --test-only and submitted job {job}"),
            format!(
                "run scancel {job}, and set slurm_bin_dir to the directory of Slurm's own sbatch"
            ),
        ),
        Tried::NoScript => {}
    }
}

/// The remedy for a refusal. `None` if sbatch's message is unknown.
pub fn remedy(message: &str) -> Option<&'static str> {
    let text = message.to_lowercase();
    let table = [
        (
            "invalid account",
            "correct slurm_account (or the procedure's account), or leave it empty; `sacctmgr show assoc user=$USER` lists yours",
        ),
        (
            "partition",
            "correct slurm_partition (or the procedure's partition), or leave it empty for the default; `sinfo -s` lists them",
        ),
        (
            "qos",
            "correct the procedure's qos; `sacctmgr show assoc user=$USER format=account,qos` lists yours",
        ),
        (
            "feature",
            "correct --constraint in sbatch_args or in the script; `sinfo -o %f` lists available features",
        ),
        ("gres", GRES),
        ("generic resource", GRES),
        (
            "node configuration",
            "request less memory, fewer CPUs or another constraint: no node of the partition has these resources",
        ),
        (
            "memory",
            "request less memory: no node of the partition has that much",
        ),
        ("dos line breaks", DOS),
        (
            "batch script",
            "start the script with a line such as #!/bin/bash",
        ),
    ];
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, remedy)| *remedy)
}
