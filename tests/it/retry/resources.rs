//! What the next attempt asks for.

use super::*;

#[test]
fn a_job_gets_more_memory_until_it_has_enough() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 32G 120");
    study.ok(&["monitor"]);
    assert_eq!(standing(&study, "prep").0, "due");
    assert_eq!(standing(&study, "qc").0, "waiting");
    assert_eq!(
        study.ok(&["manifest", "--format", "csv"]).out,
        "subject,session,procedure,priority\nsub-01,ses-01,prep,0\n"
    );
    let before = study.snapshot();
    let dry = study.ok(&["run", "--dry-run", "-v"]);
    insta::assert_snapshot!("a_dry_run_of_a_retry", pretty(&study, &dry.out));
    let same = |path: &std::path::Path| !path.ends_with("fake-slurm/calls");
    let kept = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        files.into_iter().filter(|(path, _)| same(path)).collect()
    };
    assert!(
        kept(before) == kept(study.snapshot()),
        "a dry run writes nothing"
    );

    let said = study.ok(&["-v", "run"]);
    insta::assert_snapshot!("a_run_of_a_retry", pretty(&study, &said.err));
    let env = std::fs::read_to_string(slurm.at("env.2")).unwrap();
    assert!(env.contains("SNBB_ATTEMPT=2\n") && env.contains("SNBB_LAST_REASON=out_of_memory\n"));
    end(&slurm, "OUT_OF_MEMORY 0:125 48G 120");
    study.ok(&["run"]);
    // Another kind of failure keeps what was raised, and has a budget of its own.
    end(&slurm, "NODE_FAIL 0:0 64G 120 n7");
    let dry = study.ok(&["run", "--dry-run", "-v"]);
    insta::assert_snapshot!("a_dry_run_of_a_fourth_attempt", pretty(&study, &dry.out));
    study.ok(&["run"]);
    assert_eq!(asked(&slurm, "mem"), ["32G", "48G", "64G", "64G"]);
    assert_eq!(asked(&slurm, "exclude"), ["bad", "bad", "bad", "bad,n7"]);
    end(&slurm, "COMPLETED 0:0 64G");
    study.write("derivatives/prep/sub-01/ses-01/done", "x");
    study.ok(&["run"]);
    assert_eq!(standing(&study, "prep").0, "complete");
    assert_eq!(slurm.jobs()[4].1, "qc_sub-01_ses-01");

    let submitted = study.events("submitted");
    let told: Vec<String> = submitted
        .iter()
        .map(|event| format!("{} {}", event["retry_of"], event["changes"]))
        .collect();
    assert_eq!(
        told,
        [
            "null null",
            r#""out_of_memory" ["--mem 32G -> 48G"]"#,
            r#""out_of_memory" ["--mem 48G -> 64G"]"#,
            r#""node_fail" ["--exclude n7"]"#,
            "null null",
        ]
    );
    assert!(
        submitted[1]["argv"]
            .as_array()
            .unwrap()
            .contains(&"--mem=48G".into())
    );
}

#[test]
fn the_scripts_own_lines_are_minded() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    let config = RETRY.replace("DELAY", "1h");
    study.configure(
        &config
            .replace("    mem: 32G\n", "")
            .replace("    sbatch_args: [--exclude=bad]\n", ""),
    );
    study.write(
        "prep.sh",
        "#!/bin/bash\n#SBATCH --mem-per-cpu=4G -x old\ntrue\n#SBATCH -x later\n",
    );
    study.ok(&["run"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 8G 120");
    study.ok(&["run"]);
    let changes = study.events("submitted")[1]["changes"].clone();
    insta::assert_snapshot!("a_factor_without_effect", changes[0].as_str().unwrap());
    end(&slurm, "NODE_FAIL 0:0 8G 120 n[7-8]");
    let said = study.ok(&["monitor"]);
    insta::assert_snapshot!("a_failure_that_is_retried", messages(&study, &said));
    study.ok(&["run"]);
    assert_eq!(asked(&slurm, "mem"), ["-", "-", "-"]);
    assert_eq!(asked(&slurm, "exclude"), ["-", "-", "old,n[7-8]"]);
}

#[test]
fn what_is_above_the_ceiling_is_reduced_with_a_note() {
    let (study, slurm) = study(&["sub-01/ses-01", "sub-02/ses-01"]);
    let ceilings = "max_mem: 40G\nmax_time: '1:30:00'\nmax_cpus: 4\nslurm_cpus_per_task: 8\n";
    study.configure(&format!("{ceilings}{}", RETRY.replace("DELAY", "1h")));
    let notes = |said: &Said| messages(&study, said);
    let dry = study.ok(&["run", "--dry-run", "-v"]);
    let expected = notes(&dry);
    insta::assert_snapshot!("reduced_requests", expected);
    assert!(
        dry.out.lines().all(|line| !line.starts_with('#')),
        "{}",
        dry.out
    );
    assert_eq!(notes(&study.ok(&["run"])), expected);
    assert_eq!(asked(&slurm, "time"), ["1:30:00", "1:30:00"]);
    assert_eq!(asked(&slurm, "cpus-per-task"), ["4", "4"]);
    assert_eq!(asked(&slurm, "mem"), ["32G", "32G"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 32G 90");
    let dry = study.ok(&["run", "--dry-run", "-v"]);
    insta::assert_snapshot!("a_dry_run_of_a_reduced_retry", pretty(&study, &dry.out));
    let said = study.ok(&["run", "--slurm-mem", "1G"]);
    insta::assert_snapshot!("a_reduced_retry", notes(&said));
    assert_eq!(asked(&slurm, "mem")[2], "40G");
    let last = study.events("submitted").pop().unwrap();
    assert_eq!(last["reduced"].as_array().unwrap().len(), 3, "{last}");
    assert_eq!(last["changes"][0], "--mem 32G -> 40G");
}
