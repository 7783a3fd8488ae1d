//! A disk that is really full: whoever does not watch hears of it, and what was there stays whole.

use std::fs;

use super::{digests, has, plain, study};
use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::harness::disk::SmallDisk;
use crate::mail::server::{MailServer, Manner};

/// The state, and whatever is written for those who do not watch, lies on a disk of its own; digests are
/// kept elsewhere.
fn on_a_disk(test: &str, more: &str) -> Option<(SmallDisk, Study, FakeSlurm)> {
    let files = "heartbeat_file: disk/heartbeat\nmetrics_file: disk/snbb.prom\n";
    let (study, slurm) = study(2, &format!("{files}{more}"));
    let disk = SmallDisk::mount(test, &study.at("disk"), "size=256k")?;
    std::os::unix::fs::symlink("disk/state.parquet", study.at("state.parquet")).unwrap();
    Some((disk, study, slurm))
}

#[test]
fn the_digest_is_sent_and_old_files_stay_whole() {
    let test = "the_digest_is_sent_and_old_files_stay_whole";
    let Some((disk, study, slurm)) = on_a_disk(test, "safety: {min_free: 0}\n") else {
        return;
    };
    study.ok(&["run"]);
    assert_eq!(digests(&study), [""; 0]);
    let names = disk.names();
    let before: Vec<String> = ["disk/heartbeat", "disk/snbb.prom"]
        .map(|path| study.read(path))
        .to_vec();
    slurm.set_all("FAILED 3:0");
    disk.fill(0);
    let said = study.call(&["monitor"]);
    assert_eq!(said.code, 1, "{}", said.err);
    has(
        &said.err,
        &[
            "No space left on device",
            "warning: metrics_file: ",
            "warning: cannot write the notes for later invocations: ",
        ],
    );
    let told = digests(&study);
    assert_eq!(told.len(), 1, "{}", said.err);
    has(&told[0], &["No space left on device", "exit code 1"]);
    assert_eq!(disk.names(), names, "nothing half-written is left");

    // That it was told could not be written down, so it is told again rather than never.
    let said = study.call(&["run"]);
    assert_eq!(said.code, 1, "{}", said.err);
    has(&said.err, &["warning: heartbeat_file: "]);
    assert_eq!(digests(&study).len(), 2);
    assert_eq!(disk.names(), names);
    let after: Vec<String> = ["disk/heartbeat", "disk/snbb.prom"]
        .map(|path| study.read(path))
        .to_vec();
    assert_eq!(after, before, "old files are as they were");

    disk.relieve();
    study.ok(&["monitor"]);
    let told = digests(&study);
    assert_eq!(told.len(), 3);
    insta::assert_snapshot!(plain(&study, &told[2]));
    study.ok(&["run"]);
    assert_eq!(digests(&study).len(), 3);
    assert_ne!(study.read("disk/heartbeat"), before[0]);
}

#[test]
fn a_run_that_finds_no_room_stops_and_is_told_of() {
    let test = "a_run_that_finds_no_room_stops_and_is_told_of";
    let Some((disk, study, _slurm)) = on_a_disk(test, "safety: {min_free: 100K}\n") else {
        return;
    };
    study.ok(&["run"]);
    study.scan(&["sub-09/ses-01"]);
    disk.fill(8);
    let said = study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    let told = digests(&study);
    assert_eq!(told.len(), 1, "{}", said.err);
    has(&told[0], &["state_file", "exit code 6"]);
    // With a little room left, it is remembered, and told once.
    assert_eq!(study.call(&["run"]).code, 6);
    assert_eq!(digests(&study).len(), 1);
    let heartbeat: serde_json::Value = serde_json::from_str(&study.read("disk/heartbeat")).unwrap();
    assert_eq!(heartbeat["exit_code"], 6);
    has(
        &study.ok(&["explain", "09", "01", "prep"]).err,
        &["state_file"],
    );
}

#[test]
fn what_is_asked_for_by_name_fails_clearly() {
    let test = "what_is_asked_for_by_name_fails_clearly";
    let server = MailServer::start(Manner::Kind);
    let audit = format!(
        "audit:\n  report_dir: disk/reports\n  email_recipients: [ada@example.org]\n  \
         smtp_host: 127.0.0.1\n  smtp_port: {}\nsafety: {{min_free: 0}}\n",
        server.port
    );
    let Some((disk, study, _slurm)) = on_a_disk(test, &audit) else {
        return;
    };
    study.ok(&["run"]);
    let page = study.at("disk/audit.html").display().to_string();
    let figures = study.at("disk/figures.prom").display().to_string();
    study.ok(&["audit", "--format", "html", "--output", &page]);
    study.ok(&["metrics", "--output", &figures]);
    let before = [fs::read(&page).unwrap(), fs::read(&figures).unwrap()];
    disk.fill(0);
    let names = disk.names();
    let full = |arguments: &[&str], path: &str| {
        let said = study.call(arguments);
        assert_eq!(said.code, 1, "{arguments:?}: {}", said.err);
        has(&said.err, &["error: ", path, "No space left on device"]);
        said
    };
    full(&["metrics", "--output", &figures], &figures);
    full(&["audit", "--format", "html", "--output", &page], &page);
    // The report itself goes where there is room: to stdout, and by mail.
    let reports = study.at("disk/reports").display().to_string();
    let said = full(&["audit", "--history", "--email"], &reports);
    has(&said.out, &["prep"]);
    assert_eq!(server.received().len(), 1);
    assert!(study.ok(&["metrics"]).out.contains("snbb_scheduler_tasks"));
    assert_eq!(
        [fs::read(&page).unwrap(), fs::read(&figures).unwrap()],
        before
    );
    let left: Vec<String> = disk
        .names()
        .into_iter()
        .filter(|name| name != "reports")
        .collect();
    assert_eq!(left, names, "nothing half-written is left");
    disk.relieve();
    study.ok(&["audit", "--format", "html", "--output", &page]);
}
