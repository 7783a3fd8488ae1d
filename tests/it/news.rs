//! Digests, heartbeat, metrics, and how little `-q` says.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the files that digests are kept in"
)]

mod full_disk;
mod metrics;
mod quiet;

use std::fs;
use std::time::Duration;

use snbb_scheduler::show::mail::{Message, run_program};
use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::mail::server::{MailServer, Manner};
use crate::pretty::{messages, pretty};

const STEP: &str = "procedures:\n  - {name: prep, output_dir: prep, script: prep.sh, completion_marker: done.txt}\n";
/// Keeps each digest in a file of its own.
const KEEP: &str = "cd \"$(dirname \"$0\")\"\nmkdir -p digests\nn=$(ls digests | wc -l)\n\
                    { echo \"$SNBB_MESSAGE_SUBJECT\"; cat; } > digests/.new\nmv digests/.new digests/$n.txt";

/// Makes a study of some sessions whose digests are kept in `digests`.
fn study(sessions: usize, more: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    let names: Vec<String> = (1..=sessions)
        .map(|number| format!("sub-{number:02}/ses-01"))
        .collect();
    study.scan(&names.iter().map(String::as_str).collect::<Vec<_>>());
    study.script("prep.sh", "true");
    study.script("keep.sh", KEEP);
    study.configure(&format!("notify:\n  command: keep.sh\n{more}{STEP}"));
    (study, slurm)
}

fn digests(study: &Study) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(study.at("digests"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// A digest without paths, times and the host.
fn plain(study: &Study, digest: &str) -> String {
    let host = snbb_scheduler::base::sys::host_name();
    pretty(study, digest).replace(&format!(" on {host}"), " on [host]")
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn failures_are_told_once_and_never_one_by_one() {
    let (study, slurm) = study(8, "");
    study.ok(&["run"]);
    assert_eq!(digests(&study), [""; 0], "submitting is no news");
    for (at, (job, _)) in slurm.jobs().iter().enumerate() {
        let state = if at == 0 {
            "TIMEOUT 0:15"
        } else {
            "FAILED 3:0"
        };
        slurm.set(job, state);
    }
    study.ok(&["monitor"]);
    let told = digests(&study);
    assert_eq!(told.len(), 1);
    insta::assert_snapshot!("eight_failures", plain(&study, &told[0]));
    for _ in 0..2 {
        study.ok(&["run"]);
        study.ok(&["monitor"]);
    }
    assert_eq!(digests(&study).len(), 1, "nothing changed");
    // An invocation without the lock sees no rows, and forgets nothing.
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let held = store.lock("test", Duration::ZERO).unwrap();
    assert_eq!(study.call(&["monitor", "--lock-timeout", "0s"]).code, 4);
    drop(held);
    study.ok(&["monitor"]);
    assert_eq!(digests(&study).len(), 1, "after the lock was held");

    // One is tried again and fails again: that is news, the other seven are not.
    study.ok(&["retry", "--subject", "02"]);
    study.ok(&["run"]);
    slurm.set("1009", "FAILED 4:0");
    study.ok(&["run"]);
    let told = digests(&study);
    assert_eq!(told.len(), 2);
    insta::assert_snapshot!("one_failure_beside_seven", plain(&study, &told[1]));

    // A lost memory repeats one digest, and only one.
    fs::remove_file(study.at("state.calls.json")).unwrap();
    study.ok(&["run"]);
    study.ok(&["run"]);
    let told = digests(&study);
    assert_eq!(told.len(), 3);
    has(&told[2], &["prep: 8 (7 exit_code, 1 timeout)"]);
}

#[test]
fn what_is_tried_again_or_cancelled_by_the_owner_is_no_news() {
    let (study, slurm) = study(2, "retry: {max_attempts: 2, on: {timeout: {}}}\n");
    study.ok(&["run"]);
    slurm.set("1001", "TIMEOUT 0:15");
    slurm.set("1002", "CANCELLED");
    study.ok(&["run"]);
    assert_eq!(digests(&study), [""; 0]);
    slurm.set("1003", "TIMEOUT 0:15");
    study.ok(&["run"]);
    let told = digests(&study);
    assert_eq!(told.len(), 1);
    has(&told[0], &["sub-01 ses-01"]);
    assert!(!told[0].contains("sub-02"), "{}", told[0]);
}

#[test]
fn slurm_may_be_silent_twice() {
    let (study, slurm) = study(1, "");
    study.ok(&["run"]);
    let silent = |calls: usize| {
        slurm.break_program("squeue", "Unable to contact slurm controller");
        for _ in 0..calls {
            assert_eq!(study.call(&["run"]).code, 5);
        }
        slurm.heal("squeue");
        study.ok(&["monitor"]);
        digests(&study).len()
    };
    assert_eq!(silent(2), 0);
    assert_eq!(silent(5), 1);
    insta::assert_snapshot!(plain(&study, &digests(&study)[0]));
    assert_eq!(silent(3), 2, "it was better in between");
}

#[test]
fn pauses_refusals_and_errors_are_told_and_persons_deeds_are_not() {
    let (study, slurm) = study(4, "pause_after_failures: 2\nmax_submit_per_run: 2\n");
    study.ok(&["run"]);
    study.ok(&["pause", "--note", "holiday"]);
    study.ok(&["run"]);
    assert_eq!(digests(&study), [""; 0]);
    study.ok(&["resume"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    let told = digests(&study);
    assert_eq!(told.len(), 1, "one digest for all of it");
    insta::assert_snapshot!("a_pause_and_failures", plain(&study, &told[0]));

    fs::remove_file(study.at("prep.sh")).unwrap();
    study.ok(&["resume", "--procedure", "prep"]);
    for _ in 0..2 {
        assert_eq!(study.call(&["run"]).code, 3);
    }
    let told = digests(&study);
    assert_eq!(told.len(), 2);
    insta::assert_snapshot!("refused_submissions", plain(&study, &told[1]));

    // The state cannot be read: what was told of its rows is not told again when it is mended.
    let good = study.read_bytes("state.parquet");
    study.write("state.parquet", "x");
    for _ in 0..2 {
        assert_eq!(study.call(&["run"]).code, 1);
    }
    let told = digests(&study);
    assert_eq!(told.len(), 3);
    insta::assert_snapshot!("an_unreadable_state", plain(&study, &told[2]));
    fs::write(study.at("state.parquet"), good).unwrap();
    assert_eq!(study.call(&["run"]).code, 3);
    assert_eq!(digests(&study).len(), 3);
}

#[test]
fn only_what_is_asked_for_is_told() {
    let (study, slurm) = study(2, "  on: [paused]\npause_after_failures: 3\n");
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    assert_eq!(digests(&study), [""; 0]);
}

#[test]
fn a_digest_that_cannot_be_sent_is_a_warning_and_is_sent_later() {
    let (study, slurm) = study(1, "");
    // A port where nobody listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mail = |port: u16| {
        study.configure(&format!(
            "notify: {{email: yes, command: keep.sh}}\naudit:\n  email_recipients: [ada@example.org]\n  \
             smtp_host: 127.0.0.1\n  smtp_port: {port}\n{STEP}"
        ));
    };
    mail(port);
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    let said = study.ok(&["run", "-q"]);
    let told = messages(&study, &said).replace(&port.to_string(), "[port]");
    insta::assert_snapshot!(told);
    assert_eq!(digests(&study).len(), 1, "the other way is one of its own");
    let server = MailServer::start(Manner::Kind);
    mail(server.port);
    study.ok(&["run"]);
    study.ok(&["run"]);
    let got = server.received();
    assert_eq!(got.len(), 1);
    has(&got[0].data, &["sub-01 ses-01"]);
    assert_eq!(digests(&study).len(), 1);

    study.script("keep.sh", "cat > /dev/null; echo broken >&2; exit 3");
    study.ok(&["retry"]);
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    let said = study.ok(&["run"]);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_dry_run_and_a_look_tell_nobody() {
    let (study, slurm) = study(1, "");
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    let before = study.snapshot().len();
    study.ok(&["run", "--dry-run"]);
    study.ok(&["status"]);
    assert_eq!(digests(&study), [""; 0]);
    assert_eq!(study.snapshot().len(), before);
}

#[test]
fn a_program_that_hangs_or_is_none_does_not_hold_anybody_up() {
    let study = Study::new();
    let message = Message {
        subject: "a\nb".to_owned(),
        text: "x".repeat(1 << 20),
    };
    let tell = |name: &str| {
        let error = run_program(&study.at(name), &message, Duration::from_millis(500));
        error.unwrap_err().to_string()
    };
    study.script("hangs.sh", "sleep 1000");
    assert!(tell("hangs.sh").contains("was killed"));
    study.write("text.sh", "no program");
    assert!(tell("text.sh").starts_with("cannot start"));
    assert!(tell("nothing").starts_with("cannot start"));
    study.script("dies.sh", "kill -9 $$");
    let error = tell("dies.sh");
    assert!(error.contains("signal 9"), "{error}");
    // It need not read what it gets.
    study.script("deaf.sh", "exit 0");
    run_program(&study.at("deaf.sh"), &message, Duration::from_secs(60)).unwrap();
    study.script("counts.sh", "cat | wc -c > \"$0.out\"");
    run_program(&study.at("counts.sh"), &message, Duration::from_secs(60)).unwrap();
    assert_eq!(study.read("counts.sh.out").trim(), (1 << 20).to_string());
}
