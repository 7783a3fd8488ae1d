//! Jobs whose names and comments were changed, and a state that is gone.

use super::*;

/// What scripts, plugins and people do to a job: its name and its comment, by the tag that it had.
fn alter(slurm: &FakeSlurm, name: Option<&str>, comment: impl Fn(&str) -> String) {
    for (job, _) in slurm.jobs() {
        let path = slurm.at("jobs").join(&job);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if let Some(name) = name {
            lines[0] = name.to_owned();
        }
        lines[1] = comment(&lines[1]);
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    slurm.set_all("RUNNING");
}

/// Accounting has had the time to know of the jobs.
fn grow_old(slurm: &FakeSlurm) {
    for (job, _) in slurm.jobs() {
        let path = slurm.at("jobs").join(&job);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[2] = (lines[2].parse::<i64>().unwrap() - 120).to_string();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
}

fn forget(study: &Study, with_log: bool) {
    for file in fs::read_dir(study.at("")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let is_log = name.ends_with(".jsonl");
        if name.starts_with("state.") || is_log && with_log {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

const RUNNING: [&str; 3] = [
    "convert sub-01 ses-01: running running",
    "convert sub-01 ses-02: running running",
    "convert sub-02 ses-01: running running",
];

/// The audit log, else the command line in accounting, says which task a job is for.
#[test]
fn attack_renamed_jobs_are_taken_back_after_the_state_is_gone() {
    for with_log in [false, true] {
        for is_commented in [false, true] {
            let (study, slurm) = study();
            study.ok(&["run"]);
            alter(&slurm, Some("step 2 of 7"), |tag| match is_commented {
                true => tag.to_owned(),
                false => "site".to_owned(),
            });
            forget(&study, with_log);
            study.ok(&["run"]);
            assert_eq!(study.statuses(), RUNNING, "{with_log} {is_commented}");
            assert_eq!(slurm.calls("sbatch"), 3, "{with_log} {is_commented}");
        }
    }
}

#[test]
fn attack_nothing_is_submitted_beside_a_job_of_ours_that_may_be_any_tasks() {
    let (study, slurm) = study();
    study.configure(&format!("accounting: off\n{PIPELINE}"));
    study.ok(&["run", "--max-jobs", "1"]);
    alter(&slurm, Some("step 2 of 7"), str::to_owned);
    forget(&study, true);
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 1);
    insta::assert_snapshot!(messages(&study, &said));
    slurm.set("1001", "GONE");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 4);
}

/// `#SBATCH hetjob`: each part has the tag.
#[test]
fn attack_parts_of_a_heterogeneous_job_are_no_second_jobs() {
    let (study, slurm) = study();
    study.ok(&["run", "--max-jobs", "1"]);
    fs::copy(slurm.at("jobs/1001"), slurm.at("jobs/1001+1")).unwrap();
    slurm.set_all("RUNNING");
    let told = [(); 2].map(|()| {
        let said = study.ok(&["run", "--max-jobs", "0"]);
        assert_eq!(study.rows()[0]["job_id"], "1001");
        forget(&study, false);
        messages(&study, &said)
    });
    insta::assert_snapshot!(told.join("\n---\n"));
    study.ok(&["run", "--max-jobs", "0"]);
    study.ok(&["cancel", "--all"]);
    assert_eq!(slurm.calls("scancel"), 1);
}

/// With its name and its comment replaced, and no state and no log, only accounting can tell whose a job is.
#[test]
fn attack_nothing_is_submitted_while_accounting_owes_the_record_of_a_living_job() {
    for is_broken in [true, false] {
        let (study, slurm) = study();
        study.ok(&["run"]);
        alter(&slurm, Some("step 2 of 7"), |_| "site".to_owned());
        grow_old(&slurm);
        forget(&study, true);
        if is_broken {
            slurm.break_program("sacct", "Connection refused");
        } else {
            slurm.hide_record("1002");
        }
        for _ in 0..2 {
            let said = study.call(&["run"]);
            assert_eq!(said.code, 6, "{}", said.err);
            let name = format!("accounting_owes_a_record_{is_broken}");
            insta::assert_snapshot!(name, messages(&study, &said));
            assert_eq!(slurm.calls("sbatch"), 3, "{is_broken}");
        }
        if is_broken {
            slurm.heal("sacct");
        } else {
            fs::remove_dir_all(slurm.at("unrecorded")).unwrap();
        }
        study.ok(&["run"]);
        assert_eq!(study.statuses(), RUNNING, "{is_broken}");
        assert_eq!(slurm.calls("sbatch"), 3, "{is_broken}");
    }
}

/// A plugin appends to comments, sbatch's answer is lost, and there is no accounting.
#[test]
fn attack_a_lost_answer_and_a_changed_comment_make_one_job() {
    for change in [
        |tag: &str| format!("{tag};charge=x"),
        |tag: &str| format!("{tag}charge"),
        |tag: &str| tag[..tag.len() - 7].to_owned(),
    ] {
        let (study, slurm) = study();
        study.configure(&format!(
            "accounting: off\nsettle_time: 1s\nlost_grace: 1s\nabsence_grace: 1s\n{PIPELINE}"
        ));
        slurm.silent(1);
        study.call(&["run", "--subject", "02"]);
        alter(&slurm, Some("renamed"), change);
        for _ in 0..3 {
            let said = study.call(&["run", "--subject", "02"]);
            assert!(!said.err.contains("scancel"), "{}", said.err);
            std::thread::sleep(std::time::Duration::from_millis(1100));
        }
        assert_eq!(study.statuses(), ["convert sub-02 ses-01: running running"]);
        assert_eq!(slurm.calls("sbatch"), 1);
    }
}
