//! What `check` says of procedures, their scripts and who runs them.

use super::{STEPS, among, check, only, site, trouble};
use crate::harness::Study;
use crate::pretty::pretty;

#[test]
fn the_local_executor_says_what_it_does_not_do() {
    let study = Study::new();
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    study.configure(&format!("executor: local\n{STEPS}"));
    let (code, found) = check(&study, &[]);
    assert_eq!(code, 0);
    assert!(found.iter().all(|f| f.level == "ok"), "{found:#?}");
    let executor = found.iter().find(|f| f.topic == "executor").unwrap();
    insta::assert_snapshot!("check_local_executor", executor.text);
    study.configure(&format!("executor: local\nslurm_mem: 8G\n{STEPS}"));
    only(
        &study,
        "warning",
        "executor",
        "the local executor does not enforce mem, time and gres: bids, prep",
    );
    study.write("job.sh", "#!/opt/no/such/shell\n");
    study.configure(&format!("executor: local\n{STEPS}"));
    among(
        &study,
        &[],
        "error",
        "script",
        "interpreter /opt/no/such/shell",
    );
}

#[test]
fn a_script_with_dos_line_breaks_is_one_finding_for_all_its_procedures() {
    let (study, slurm) = site();
    study.write("job.sh", "#!/bin/bash\r\ntrue\r\n");
    slurm.break_program(
        "sbatch",
        "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\n",
    );
    let said = study.call(&["check"]);
    assert!(said.out.contains("script bids, prep: "), "{}", said.out);
    assert!(!said.out.contains("#!/bin/bash"), "{}", said.out);
    let lines = said
        .out
        .lines()
        .skip_while(|line| !line.starts_with("error "));
    let lines: Vec<&str> = lines.take(2).collect();
    insta::assert_snapshot!("check_dos_line_breaks", pretty(&study, &lines.join("\n")));
    // What scripts read is one finding each.
    let found = trouble(&study, &[]);
    assert!(
        found
            .iter()
            .all(|f| f.advice.as_ref().unwrap().contains("dos2unix")),
        "{found:#?}"
    );
}

#[test]
fn a_procedure_without_markers_is_told() {
    let (study, _slurm) = site();
    study.configure(&STEPS.replace(", completion_marker: done", ""));
    let found = only(
        &study,
        "warning",
        "markers",
        "any file in its output directory",
    );
    assert_eq!(found.about, "prep");
}
