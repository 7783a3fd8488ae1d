//! Losses that are small at each run, and a changed marker.

use super::*;

#[test]
fn e20_losses_of_one_day_stop_a_run_although_each_is_below_the_limit() {
    let world = Complete::new(true);
    let four = |from: usize| {
        let lost: Vec<String> = sessions().skip(from).take(4).collect();
        for session in &lost {
            world.remove(&format!("derivatives/prep/{session}"));
        }
        lost
    };
    let lost = four(0);
    world.goes_on(&["run"], 4);
    // Their jobs have ended, so only the records tell.
    lost.iter().for_each(|session| prep(&world.study, session));
    world.slurm.set_all("COMPLETED");
    world.goes_on(&["run"], 0);
    let lost = four(4);
    world.stops("stop_8_of_20_of_prep");
    world.goes_on(&["run", "--accept-drop"], 4);
    world.goes_on(&["run"], 0);
    // What was accepted stays so, also after runs with nothing to do.
    lost.iter().for_each(|session| prep(&world.study, session));
    world.slurm.set_all("COMPLETED");
    world.goes_on(&["run"], 0);
    world.goes_on(&["run"], 0);
    let one = sessions().nth(10).unwrap();
    world.remove(&format!("derivatives/prep/{one}"));
    world.goes_on(&["run"], 1);
}

#[test]
fn a_small_study_that_has_lost_all_results_of_a_procedure_stops() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("s.sh", "true");
    study.scan(&["sub-01/ses-1", "sub-02/ses-1"]);
    for session in ["sub-01/ses-1", "sub-02/ses-1"] {
        convert(&study, session);
        prep(&study, session);
    }
    study.ok(&["run"]);
    fs::remove_file(study.at("derivatives/prep/sub-01/ses-1/report.html")).unwrap();
    study.ok(&["run", "--max-jobs", "0"]);
    fs::remove_file(study.at("derivatives/prep/sub-02/ses-1/report.html")).unwrap();
    let said = study.call(&["run"]);
    assert_eq!((said.code, slurm.calls("sbatch")), (6, 0), "{}", said.err);
    study.ok(&["run", "--accept-drop"]);
    assert_eq!(slurm.calls("sbatch"), 2);
}

#[test]
fn a_changed_marker_asks_before_complete_tasks_run_again() {
    let world = Complete::new(true);
    for session in sessions().skip(1) {
        world
            .study
            .write(&format!("derivatives/prep/{session}/other.html"), "x");
    }
    world
        .study
        .configure(&PIPELINE.replace("report.html", "other.html"));
    world.stops("stop_1_of_20_by_rule");
    world.goes_on(&["run", "--accept-drop"], 1);
    world.goes_on(&["run"], 0);
}
