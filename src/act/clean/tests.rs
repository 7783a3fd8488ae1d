#![expect(clippy::disallowed_methods, reason = "the tests list what is left")]

use chrono::TimeDelta;

use super::*;
use crate::model::bids::{Dicom, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::testing::procedure;
use crate::model::state::Reason;
use crate::model::state::testing::row as some_row;

fn now() -> DateTime<Utc> {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn row(procedure: &str, subject: &str, session: &str, status: TaskStatus, days: i64) -> TaskRow {
    let at = now() - TimeDelta::days(days);
    let mut row = some_row(procedure, status, Reason::Verified);
    row.key = TaskKey::new(subject, session, procedure);
    row.submitted_at = Some(at);
    row.updated_at = Some(at);
    row.facts.ended_at = None;
    row.job_id = Some(JobId::new("7"));
    row.job_name = None;
    row.submission_id = None;
    row
}

fn state(rows: Vec<TaskRow>) -> State {
    State::from_rows(rows, None, Default::default())
}

#[test]
fn only_ended_rows_of_tasks_that_no_longer_exist_are_obsolete() {
    use TaskStatus::{Complete, Failed, Pending, Running};
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("s", Scope::Subject, &[]),
    ])
    .unwrap();
    let sessions = [Session {
        subject: SubjectLabel::new("sub-1").unwrap(),
        session: SessionLabel::new("ses-1").unwrap(),
        dicom: Dicom::NotNeeded,
    }];
    let state = state(vec![
        row("a", "sub-1", "ses-1", Complete, 100),
        row("s", "sub-1", "", Failed, 100),
        row("a", "sub-1", "ses-2", Complete, 100),
        row("a", "sub-1", "ses-3", Complete, 80),
        row("a", "sub-1", "ses-4", Pending, 100),
        row("a", "sub-1", "ses-5", Running, 100),
        row("s", "sub-2", "", Failed, 100),
        row("s", "sub-1", "ses-1", Failed, 100),
        row("old", "sub-1", "ses-1", Failed, 100),
        TaskRow {
            submitted_at: None,
            updated_at: None,
            ..row("old", "sub-9", "", Failed, 100)
        },
    ]);
    let gone = obsolete_rows(&state, &sessions, &dag, now() - TimeDelta::days(90));
    let names: Vec<String> = gone.iter().map(|row| row.key.to_string()).collect();
    assert_eq!(
        names,
        [
            "old sub-1 ses-1",
            "s sub-1 ses-1",
            "a sub-1 ses-2",
            "s sub-2"
        ]
    );
}

#[test]
fn logs_of_all_attempts_of_complete_tasks_are_selected() {
    use TaskStatus::{Complete, Failed, Running};
    let state = state(vec![
        row("a", "sub-1", "", Complete, 100),
        row("a", "sub-2", "", Failed, 100),
        row("a", "sub-3", "", Complete, 10),
        row("a", "sub-4", "", Running, 100),
        row("../x", "sub-1", "", Complete, 100),
    ]);
    let earlier = |subject: &str, job: &str| TaskRow {
        job_id: Some(JobId::new(job)),
        ..row("a", subject, "", Failed, 120)
    };
    let attempts = [
        earlier("sub-1", "3"),
        earlier("sub-2", "4"),
        TaskRow {
            job_name: Some("a_sub-4".into()),
            ..earlier("sub-1", "7")
        },
    ];
    let names = log_names(&state, &attempts, now() - TimeDelta::days(90));
    let mut of_a: Vec<&String> = names["a"].iter().collect();
    of_a.sort();
    assert_eq!(
        of_a,
        [
            "a_sub-1_3.err",
            "a_sub-1_3.out",
            "a_sub-1_7.err",
            "a_sub-1_7.out"
        ]
    );
}

mod files {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{LogsError, find_logs as find};
    use super::*;

    fn names(procedures: &[&str]) -> BTreeMap<String, HashSet<String>> {
        let files = [
            "a_sub-1_7.out",
            "a_sub-1_7.err",
            "a_sub-1_8.out",
            "../victim",
        ];
        let files: HashSet<String> = files.map(str::to_owned).into();
        procedures
            .iter()
            .map(|name| ((*name).to_owned(), files.clone()))
            .collect()
    }

    fn later() -> DateTime<Utc> {
        crate::base::sys::now() + TimeDelta::days(1)
    }

    #[test]
    fn nothing_else_is_removed_and_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for sub in ["logs/a", "logs/.", "elsewhere", "logs/a/a_sub-1_7.err"] {
            fs::create_dir_all(at(sub)).unwrap();
        }
        for file in [
            "logs/a/a_sub-1_7.out",
            "logs/a/a_sub-1_7.out.gz",
            "logs/a/a_sub-1_9.out",
            "logs/victim",
            "elsewhere/a_sub-1_7.out",
        ] {
            fs::write(at(file), "text").unwrap();
        }
        symlink(at("logs/victim"), at("logs/a/a_sub-1_8.out")).unwrap();
        symlink(at("elsewhere"), at("logs/b")).unwrap();
        let wanted = names(&["a", "b", "..", "a/../..", "/", "", "none"]);
        assert!(
            find(&at("logs"), &wanted, &[], now()).unwrap()[0]
                .files
                .is_empty(),
            "young"
        );
        let found = find(&at("logs"), &wanted, &[], later()).unwrap();
        let list: Vec<_> = found
            .iter()
            .map(|old| (old.directory.clone(), old.files.clone()))
            .collect();
        let expected = vec![("a_sub-1_7.out".to_owned(), 4)];
        assert_eq!(list, [(at("logs/a").canonicalize().unwrap(), expected)]);
        // The directory is replaced by a link in between.
        fs::rename(at("logs/a"), at("logs/moved")).unwrap();
        symlink(at("elsewhere"), at("logs/a")).unwrap();
        found[0].remove().unwrap();
        found[0].remove().unwrap();
        assert!(at("elsewhere/a_sub-1_7.out").try_exists().unwrap());
        assert!(at("logs/victim").try_exists().unwrap());
        let mut left: Vec<_> = fs::read_dir(at("logs/moved"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        let expected = [
            "a_sub-1_7.err",
            "a_sub-1_7.out",
            "a_sub-1_7.out.gz",
            "a_sub-1_8.out",
            "a_sub-1_9.out",
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn logs_below_the_data_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at("data/logs/a")).unwrap();
        symlink(at("data/logs"), at("logs")).unwrap();
        for root in ["data", "data/logs", "data/logs/a", "logs"] {
            let roots = [("bids_root", &*at(root))];
            let error = find(&at("logs"), &names(&["a"]), &roots, later()).unwrap_err();
            assert!(
                matches!(error, LogsError::BelowData { .. }),
                "{root}: {error}"
            );
        }
        let roots = [("bids_root", &*at("data/logs/b"))];
        assert!(find(&at("logs"), &names(&["a"]), &roots, later()).is_ok());
        assert!(
            find(&at("none"), &names(&["a"]), &[], later())
                .unwrap()
                .is_empty()
        );
    }
}
