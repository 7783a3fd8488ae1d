//! A state that can be reached by another name.

use std::fs;

use super::{among, site};

#[test]
fn a_second_name_of_the_state_is_told() {
    let (study, _slurm) = site();
    study.ok(&["run"]);
    fs::create_dir(study.at("backup")).unwrap();
    fs::hard_link(study.at("state.parquet"), study.at("backup/state.parquet")).unwrap();
    among(
        &study,
        &[],
        "warning",
        "state",
        "has 1 more name (hard link)",
    );
    let said = study.ok(&["run", "--max-jobs", "0"]).err;
    assert!(
        said.contains("has 1 more name (hard link)") && said.contains("`cp -al`"),
        "{said}"
    );
    // A copy is none, nor is what saves leave.
    fs::remove_file(study.at("backup/state.parquet")).unwrap();
    fs::copy(study.at("state.parquet"), study.at("backup/state.parquet")).unwrap();
    let said = study.ok(&["run"]).err;
    assert!(!said.contains("hard link"), "{said}");
}
