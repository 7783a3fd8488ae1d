//! What the scripts leave, judged by the entries' own markers: complete after a good end, and after nothing else.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use snbb_scheduler::gather::completion::Completion;
use snbb_scheduler::gather::completion::explain::FindingState;
use snbb_scheduler::setup::catalogue::{App, app, apps};

use super::site::{Site, text};

/// Returns a site with the sessions that an app needs.
fn site(app: &'static App) -> Site {
    match app.name {
        "freesurfer_long" => Site::new(app, &["ses-01", "ses-02"]),
        _ => Site::new(app, &["ses-01"]),
    }
}

/// Names what runs in the app's container.
fn program(app: &App) -> &'static str {
    match app.name {
        "freesurfer" | "freesurfer_long" => "recon-all",
        "fastsurfer" => "run_fastsurfer",
        "tractoflow" => "nextflow",
        _ => app.name,
    }
}

#[test]
fn a_good_end_is_complete_and_the_containers_are_called_like_this() {
    let mut calls = String::new();
    for app in apps() {
        let site = site(app);
        assert_eq!(site.completion(), Completion::Incomplete, "{}", app.name);
        let output = site.run("");
        assert!(output.status.success(), "{}: {}", app.name, text(&output));
        assert_eq!(
            site.completion(),
            Completion::Complete,
            "{:#?}",
            site.markers()
        );
        site.assert_clean("good end");
        writeln!(calls, "--- {}\n{}", app.name, site.calls()).unwrap();

        // A second attempt replaces what is there, also where it was complete.
        let output = site.run("");
        assert!(output.status.success(), "{}: {}", app.name, text(&output));
        assert_eq!(site.completion(), Completion::Complete, "{}", app.name);
        site.assert_clean("second attempt");
    }
    insta::assert_snapshot!("catalogue-calls", calls);
}

#[test]
fn a_dataset_without_sessions_works_the_same() {
    for app in apps().iter().filter(|app| app.name != "freesurfer_long") {
        let site = Site::new(app, &[""]);
        let output = site.run("");
        assert!(output.status.success(), "{}: {}", app.name, text(&output));
        assert_eq!(
            site.completion(),
            Completion::Complete,
            "{:#?}",
            site.markers()
        );
        site.assert_clean("no sessions");
    }
}

/// Each way to fail: at once, after the outputs, with a good end and no outputs, with a good end and a crash file.
#[test]
fn after_a_failure_nothing_is_complete_and_the_next_attempt_mends_it() {
    let crashing = [
        "aslprep", "cat12", "fmriprep", "mriqc", "qsiprep", "smriprep", "xcp_d",
    ];
    for app in apps() {
        let mut ways = vec!["", "nothing "];
        if program(app) != "recon-all" {
            ways.push("half ");
        }
        if crashing.contains(&app.name) {
            ways.push("crash ");
        }
        for way in ways {
            let site = site(app);
            let output = site.run(&format!("{way}{}", program(app)));
            let what = format!("{} '{way}': {}", app.name, text(&output));
            assert!(!output.status.success(), "{what}");
            let is_its_code = way.is_empty() || (way == "half " && app.name != "tractoflow");
            assert_eq!(
                output.status.code() == Some(9),
                is_its_code,
                "the program's own code: {what}"
            );
            assert_eq!(site.completion(), Completion::Incomplete, "{what}");
            site.assert_clean(&what);

            let output = site.run("");
            assert!(output.status.success(), "{what} again: {}", text(&output));
            assert_eq!(
                site.completion(),
                Completion::Complete,
                "{what} again: {:#?}",
                site.markers()
            );
        }
    }
}

/// FreeSurfer leaves a recon-all.done after a failure as well.
#[test]
fn each_step_of_freesurfer_can_fail() {
    for (name, step) in [
        ("freesurfer", "sub-01_ses-01"),
        ("freesurfer_long", "sub-01"),
        ("freesurfer_long", "sub-01_ses-02.long.sub-01"),
    ] {
        let site = site(app(name).unwrap());
        let output = site.run(&format!("recon-all {step}"));
        assert!(!output.status.success(), "{step}: {}", text(&output));
        assert_eq!(site.completion(), Completion::Incomplete, "{step}");
        let output = site.run("");
        assert!(output.status.success(), "{step}: {}", text(&output));
        assert_eq!(site.completion(), Completion::Complete, "{step}");
    }
}

/// An earlier good end must not speak for a later attempt that failed.
#[test]
fn a_failed_attempt_over_a_good_one_is_not_complete() {
    for app in apps() {
        // These put the result in its place only at their good end, so what is there is still the good one. FreeSurfer
        // does nothing again that is done.
        let keeps = [
            "cat12",
            "dcm2niix",
            "dcm2bids",
            "heudiconv",
            "mriqc",
            "tractoflow",
            "freesurfer",
            "freesurfer_long",
        ];
        let site = site(app);
        assert!(site.run("").status.success());
        site.run(&format!("half {}", program(app)));
        let expected = if keeps.contains(&app.name) {
            Completion::Complete
        } else {
            Completion::Incomplete
        };
        assert_eq!(site.completion(), expected, "{}", app.name);
    }
}

/// Killed at any step of bringing results to their place, a task is not complete, and the next attempt clears up.
#[test]
fn what_is_seen_of_a_killed_script_is_not_complete() {
    for app in apps() {
        let counted = site(app);
        assert!(counted.run_killed_at(0).success(), "{}", app.name);
        let steps = counted.steps();
        if ["fastsurfer", "freesurfer", "freesurfer_long"].contains(&app.name) {
            assert_eq!(
                steps, 0,
                "works in place, and the program makes its own marks"
            );
            continue;
        }
        let site = site(app);
        // The last one first: later attempts find the description of the dataset, and take a step less.
        for step in BTreeSet::from([steps.div_ceil(2), steps]).into_iter().rev() {
            let status = site.run_killed_at(step);
            let what = format!("{} step {step} of {steps}", app.name);
            assert!(!status.success(), "{what}");
            assert_eq!(site.completion(), Completion::Incomplete, "{what}");
        }
        let output = site.run("");
        assert!(output.status.success(), "{}: {}", app.name, text(&output));
        assert_eq!(site.completion(), Completion::Complete, "{}", app.name);
        site.assert_nothing_half("killed before");
    }
}

#[test]
fn forbidden_files_spoil_it() {
    let mut spoiled = Vec::new();
    for app in apps() {
        let site = site(app);
        let forbid = &site.procedure(app).completion.forbid;
        if forbid.is_empty() {
            continue;
        }
        assert!(site.run("").status.success());
        for pattern in forbid {
            let file = site.output(app, site.last_task(app));
            let file = file.join(pattern.as_str().replace('*', "x"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, "").unwrap();
            assert_eq!(
                site.completion(),
                Completion::Incomplete,
                "{}: {}",
                app.name,
                pattern.as_str()
            );
            fs::remove_file(&file).unwrap();
            assert_eq!(site.completion(), Completion::Complete, "{}", app.name);
        }
        spoiled.push(app.name);
    }
    assert_eq!(
        spoiled,
        [
            "aslprep",
            "cat12",
            "fmriprep",
            "freesurfer",
            "qsiprep",
            "qsirecon",
            "smriprep",
            "xcp_d"
        ]
    );
}

/// The markers of images that the site's sessions do not have: T2w, and numbered runs.
const EXCUSED: [(&str, usize); 5] = [
    ("fmriprep", 3),
    ("fmriprep", 4),
    ("mriqc", 1),
    ("mriqc", 3),
    ("mriqc", 4),
];

#[test]
fn each_marker_is_needed() {
    for app in apps() {
        let site = site(app);
        assert!(site.run("").status.success());
        for index in 0..site.markers().len() {
            let mut away: Vec<(PathBuf, PathBuf)> = Vec::new();
            loop {
                let result = &site.markers()[index];
                if result.state != FindingState::Found {
                    break;
                }
                let file = PathBuf::from(result.path.as_ref().unwrap());
                let place = site.at(&format!("away-{}", away.len()));
                fs::rename(&file, &place).unwrap();
                away.push((place, file));
                assert!(away.len() < 20, "{}: {result:?}", app.name);
            }
            // A marker of images that this dataset does not have is excused.
            let is_needed = !away.is_empty();
            let result = site.markers().swap_remove(index);
            assert_eq!(
                site.completion() == Completion::Incomplete,
                is_needed,
                "{}: {result:?}",
                app.name
            );
            assert!(
                is_needed || EXCUSED.contains(&(app.name, index)),
                "{}: {result:?}",
                app.name
            );
            for (place, file) in away.into_iter().rev() {
                fs::rename(place, file).unwrap();
            }
        }
        assert_eq!(site.completion(), Completion::Complete, "{}", app.name);
    }
}

/// What a session was not scanned for is not asked for; what every session must have is.
#[test]
fn what_was_not_scanned_is_not_asked_for() {
    for (name, datatypes, expected) in [
        ("aslprep", &["perf"][..], Completion::NotApplicable),
        ("cat12", &["anat"], Completion::NotApplicable),
        ("fastsurfer", &["anat"], Completion::NotApplicable),
        ("fmriprep", &["func"], Completion::NotApplicable),
        ("freesurfer", &["anat"], Completion::NotApplicable),
        ("mriqc", &["func"], Completion::Incomplete),
        ("mriqc", &["anat", "func"], Completion::NotApplicable),
        ("qsiprep", &["dwi"], Completion::NotApplicable),
        ("qsirecon", &["dwi"], Completion::NotApplicable),
        ("smriprep", &["anat"], Completion::NotApplicable),
        ("tractoflow", &["dwi"], Completion::NotApplicable),
        ("xcp_d", &["func"], Completion::NotApplicable),
    ] {
        let site = site(app(name).unwrap());
        for datatype in datatypes {
            fs::remove_dir_all(site.at("bids/sub-01/ses-01").join(datatype)).unwrap();
        }
        assert_eq!(site.completion(), expected, "{name} without {datatypes:?}");
    }
}

#[test]
fn templates_that_were_fetched_beforehand_are_bound() {
    for name in [
        "aslprep", "fmriprep", "mriqc", "qsiprep", "smriprep", "xcp_d",
    ] {
        let app = app(name).unwrap();
        let site = site(app);
        let session = site.last_task(app);
        let mut command = site.command(app, session);
        let templates = site.at("templateflow");
        let output = command
            .env("SNBB_TEMPLATEFLOW_HOME", &templates)
            .output()
            .unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        assert!(
            site.calls().contains("ROOT/templateflow "),
            "{name}: {}",
            site.calls()
        );
    }
}

#[test]
fn a_file_that_a_site_must_provide_is_named_with_its_variable() {
    let license = ("license.txt", "SNBB_FS_LICENSE");
    for (name, (file, variable)) in [
        ("fmriprep", license),
        ("qsirecon", license),
        ("freesurfer", license),
        ("heudiconv", ("heuristic.py", "SNBB_HEURISTIC")),
        ("dcm2bids", ("dcm2bids.json", "SNBB_DCM2BIDS_CONFIG")),
    ] {
        let site = site(app(name).unwrap());
        fs::remove_file(site.at(file)).unwrap();
        let output = site.run("");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        let path = site.at(file).display().to_string();
        assert!(
            said.contains(&path) && said.contains(variable),
            "{name}: {said}"
        );
        assert_eq!(site.calls(), "", "{name}");
    }
}

#[test]
fn what_slurm_granted_is_what_the_app_may_use() {
    let app = app("fmriprep").unwrap();
    let site = site(app);
    let mut command = site.command(app, "");
    command
        .env("SLURM_CPUS_PER_TASK", "3")
        .env("SLURM_MEM_PER_NODE", "48000");
    assert!(command.output().unwrap().status.success());
    assert!(
        site.calls()
            .contains("--nprocs 3 --omp-nthreads 3 --mem-mb 48000"),
        "{}",
        site.calls()
    );
}
