//! Plans of two calls that meet, and jobs that one of them submitted a second time.

use super::*;

/// One call plans, another does all of it, then the first one goes on.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "debug builds only")]
fn a_plan_that_another_call_has_carried_out_is_not_carried_out_again() {
    // Without new sessions and news of jobs, the first call has nothing to save before it submits.
    for is_known in [false, true] {
        let mut growing = Growing::new();
        growing.study.ok(&["run"]);
        growing.grow();
        if is_known {
            growing.study.ok(&["run", "--max-jobs", "1"]);
            growing.study.ok(&["monitor"]);
        }
        let gate = Gate::new(&growing, "gate");
        let slow = gate.start(&growing, "squeue", &["run", USELESS_LOCK]);
        growing.study.ok(&["run"]);
        gate.open();
        let said = slow.end();
        assert_eq!(said.code, 1, "{}", said.err);
        let told = messages(&growing.study, &said);
        insta::assert_snapshot!(format!("a_plan_of_another_call_{is_known}"), told);
        growing.is_exact();
    }
}

/// One call plans, another is in the middle of its submissions.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "debug builds only")]
fn a_plan_that_another_call_is_carrying_out_is_not_carried_out_too() {
    let mut growing = Growing::new();
    growing.study.ok(&["run"]);
    growing.grow();
    let (first, second) = (Gate::new(&growing, "first"), Gate::new(&growing, "second"));
    let planner = first.start(&growing, "squeue", &["run", USELESS_LOCK]);
    let sender = second.start(&growing, "sbatch", &["run", USELESS_LOCK]);
    first.open();
    let said = planner.end();
    assert_eq!(said.code, 1, "{}", said.err);
    second.open();
    let said = sender.end();
    assert_eq!(said.code, 0, "{}", said.err);
    growing.is_exact();
}

/// The rows and the journal of a call in the middle of its submissions are replaced under its hands.
#[test]
#[cfg_attr(not(debug_assertions), ignore = "debug builds only")]
fn jobs_of_a_call_whose_journal_was_taken_away_are_not_forgotten() {
    let mut growing = Growing::new();
    growing.study.ok(&["run"]);
    growing.grow();
    let gate = Gate::new(&growing, "gate");
    let sender = gate.start(&growing, "sbatch", &["run", USELESS_LOCK]);
    // It finds a submission in doubt, notes that, and folds the journal.
    growing.study.ok(&["monitor", USELESS_LOCK]);
    assert!(!growing.study.at("state.journal.jsonl").exists());
    gate.open();
    let said = sender.end();
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!(messages(&growing.study, &said));
    assert_eq!(growing.jobs().len(), 1, "it stopped at once: {}", said.err);
    // Reading commands know the job already, without asking Slurm.
    let rows = growing.look();
    assert_eq!(rows.values().collect::<Vec<_>>(), ["1001"]);
    growing.study.ok(&["run"]);
    growing.is_exact();
}

/// However a second job came about, each pass shows it until it is gone.
#[test]
fn a_second_job_is_shown_at_each_pass() {
    let mut growing = Growing::new();
    growing.grow();
    growing.study.ok(&["run"]);
    let argv = growing.slurm.argv();
    let again = shell_words::split(argv.lines().next().unwrap()).unwrap();
    let again: Vec<String> = again
        .iter()
        .map(|word| match word.strip_prefix("--comment=snbb:") {
            Some(rest) => {
                let project = rest.split(':').next().unwrap();
                format!("--comment=snbb:{project}:00000000deadbeef")
            }
            None => word.clone(),
        })
        .collect();
    let status = Command::new(growing.slurm.at("bin/sbatch"))
        .args(&again)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    for _ in 0..2 {
        let said = growing.study.ok(&["run"]);
        assert_eq!(all_are_known(&mut growing, &said), 1);
        assert!(said.err.contains("scancel 1004"), "{}", said.err);
        assert_eq!(growing.slurm.calls("sbatch"), NEW + 1);
    }
    // The first one ends: the task stays in flight with the second.
    growing.slurm.set("1001", "FAILED 1:0");
    growing.study.ok(&["run"]);
    assert!(growing.look().values().any(|id| id == "1004"));
    assert_eq!(growing.slurm.calls("sbatch"), NEW + 1);
}

/// A submission in doubt whose job the queue shows is not called a second job, and its scancel line
/// is not offered.
#[test]
fn the_job_of_a_submission_in_doubt_is_no_second_job() {
    let mut growing = Growing::new();
    growing.grow();
    growing.slurm.silent(1);
    growing.study.ok(&["run"]);
    let said = growing.study.ok(&["run", "--skip-monitor"]);
    assert!(!said.err.contains("scancel"), "{}", said.err);
    growing.study.ok(&["run"]);
    growing.is_exact();
}
