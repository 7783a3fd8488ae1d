//! What Slurm would say to a job of each procedure. Pure.

use crate::executor::Refusal;
use crate::executor::slurm::inspect::Tried;
use crate::setup::check::Findings;
use crate::setup::check::scripts::DOS;

const GRES: &str = "correct the procedure's gres; `sinfo -o %G` lists what there is";
const LATER: &str = "try again later; if it stays so, ask the administrator";

/// Judges what sbatch said of a procedure.
pub(super) fn judge(procedure: &str, tried: &Tried, findings: &mut Findings) {
    findings.about("submission", procedure);
    let unknown = |why: &str| format!("Slurm could not say whether it would take a job: {why}");
    match tried {
        Tried::Fine(_) => findings.ok("Slurm would take a job of it (sbatch --test-only)"),
        Tried::Refused { kind, message } => match kind {
            Refusal::Limit => findings.warning(
                format!("Slurm would take no job of it now: {message}"),
                "nothing if it is a limit on jobs that are in the queue; else ask the administrator",
            ),
            Refusal::Transient => findings.warning(unknown(message), LATER),
            _ => findings.error(
                format!("Slurm would refuse a job of it: {message}"),
                way_out(message).unwrap_or(
                    "correct the procedure's options; nothing of it is submitted until then",
                ),
            ),
        },
        Tried::Unclear(message) => findings.warning(
            unknown(message),
            "see whether slurmctld answers (scontrol ping), then check again",
        ),
        Tried::Submitted(job) => findings.error(
            format!("the sbatch of this site does not know --test-only and has submitted job {job}"),
            format!("scancel {job}, and set slurm_bin_dir to the directory of Slurm's own sbatch"),
        ),
        Tried::NoScript => {}
    }
}

/// Names the key that a refusal is about. None: sbatch's words are not known.
pub fn way_out(message: &str) -> Option<&'static str> {
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
            "correct --constraint in sbatch_args or in the script; `sinfo -o %f` lists what there is",
        ),
        ("gres", GRES),
        ("generic resource", GRES),
        (
            "node configuration",
            "ask for less memory, fewer CPUs or another constraint: no node of the partition has that much",
        ),
        (
            "memory",
            "ask for less memory: no node of the partition has that much",
        ),
        ("dos line breaks", DOS),
        (
            "batch script",
            "begin the script with a line such as #!/bin/bash",
        ),
    ];
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, advice)| *advice)
}
