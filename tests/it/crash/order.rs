//! In which order things reach the disk, and that looking changes nothing: read from traces.

use std::path::PathBuf;

use super::trace::{self, Call};
use super::world::World;
use super::{strace_works, trace_dir};

/// Traces all threads, and shows enough of what is written to know it.
const ALL: &[&str] = &["-f", "-s", "4000"];

#[test]
fn intents_reach_the_disk_before_sbatch_and_rows_before_the_journal_goes() {
    if !strace_works("order") {
        return;
    }
    let world = World::two_due();
    let (calls, file) = traced("order", &world, &["run"]);
    let order = Order { calls, file };

    // The file's name, and what stands in it, are safe before the first sbatch begins.
    let journal = order.after(0, "openat", &["state.journal.jsonl", "O_CREAT"]);
    let named = order.sync_of_directory_after(journal);
    let intents = order.after(named, "write", &["state.journal.jsonl", "intent"]);
    let mut safe = order.after(intents, "fdatasync", &["state.journal.jsonl"]);
    let mut started = 0;
    for job in 1..=2 {
        let sending = order.after(started, "write", &["state.journal.jsonl", "sending"]);
        safe = order.after(sending.max(safe), "fdatasync", &["state.journal.jsonl"]);
        let sbatch = order.after(started + 1, "execve", &["bin/sbatch\", ["]);
        assert!(
            safe < sbatch,
            "{}: sbatch {job} began before its intent was safe",
            order.file.display()
        );
        started = sbatch;
    }
    order.none_after(started + 1, "execve", "bin/sbatch\", [");

    // The last answer is safe before the rows are written; the rows before the journal goes.
    let answer = order.after(started, "write", &["state.journal.jsonl", "accepted"]);
    let synced = order.after(answer, "fdatasync", &["state.journal.jsonl"]);
    let written = order.after(synced, "write", &["state.parquet.tmp-"]);
    let whole = order.after(written, "fsync", &["state.parquet.tmp-"]);
    let renamed = order.after(whole, "rename", &["state.parquet.tmp-", "state.parquet\")"]);
    let placed = order.sync_of_directory_after(renamed);
    let removed = order.after(placed, "unlink", &["state.journal.jsonl"]);
    assert_eq!(
        order.first(0, "unlink", &["state.journal.jsonl"]),
        Some(removed),
        "{}: the journal went too early",
        order.file.display()
    );
    order.sync_of_directory_after(removed);
    let _ = std::fs::remove_file(&order.file);
}

#[test]
fn looking_writes_nothing() {
    if !strace_works("looking") {
        return;
    }
    for (name, world) in [
        ("fresh", World::fresh().reporting()),
        ("grown", World::grown()),
        ("crashed", crashed()),
        ("failing", World::failing()),
        ("old", World::with_old_things()),
    ] {
        let all = [
            &["run", "--dry-run"][..],
            &["manifest"],
            &["status"],
            &["session-status"],
            &["audit", "--queue"],
            &["retry", "--dry-run", "--status", "all"],
            &["outputs", "--files"],
            &["clean", "--dry-run", "--older-than", "0s"],
        ];
        // These look at less: once is enough, where the most is to be put in order.
        let further = [
            &["explain", "01"][..],
            &["history", "01"],
            &["metrics"],
            &["state", "verify"],
            &["state", "repair"],
        ];
        let further = further.iter().filter(|_| name == "crashed");
        for command in all.iter().chain(further).copied() {
            let before = world.files();
            let (calls, file) = traced("looking", &world, command);
            for call in &calls {
                assert!(
                    !disturbs(call),
                    "{name}, {command:?}: {} [{}]",
                    call.line,
                    file.display()
                );
            }
            assert!(before == world.files(), "{name}, {command:?}");
            let _ = std::fs::remove_file(&file);
        }
    }
}

/// Commands that act change files beside the state and in the log directory, never one of the data.
#[test]
fn no_command_writes_below_the_data() {
    if !strace_works("data") {
        return;
    }
    for (world, command) in [
        (World::fresh(), &["run"][..]),
        (World::array(), &["run"]),
        (World::grown(), &["run"]),
        (World::grown(), &["run", "--force", "--subject", "03"]),
        (World::with_ended_jobs(), &["monitor"]),
        (World::failed(), &["retry"]),
        (World::failed(), &["retry", "--accept-outputs"]),
        (World::grown(), &["cancel", "--all"]),
        (World::grown(), &["pause"]),
        (World::grown(), &["resume"]),
        (World::with_ended_jobs(), &["wait", "--timeout", "1s"]),
        (World::grown(), &["state", "repair", "--yes"]),
        (World::with_old_things(), &["clean", "--older-than", "0s"]),
        (World::grown(), &["audit", "--queue"]),
    ] {
        let roots = ["dicom", "bids", "derivatives"]
            .map(|root| world.study.at(root).display().to_string() + "/");
        let (calls, file) = traced("data", &world, command);
        for call in &calls {
            // What is written may speak of the data.
            let about = match call.name.as_str() {
                "write" => call.line.split('"').next().unwrap_or_default(),
                _ => &call.line,
            };
            let is_below = roots.iter().any(|root| about.contains(root));
            assert!(
                !is_below || !trace::changes(&call.name, &call.line),
                "{command:?}: {} [{}]",
                call.line,
                file.display()
            );
        }
        let looked = |root: &str| calls.iter().any(|call| call.line.contains(root));
        assert!(
            command[0] != "run" || looked(&roots[0]),
            "{command:?}: not seen"
        );
        let _ = std::fs::remove_file(&file);
    }
}

/// Makes a study whose last run was killed between two jobs.
fn crashed() -> World {
    let world = World::grown();
    let file = trace_dir("looking").join("crash.trace");
    let said = world.traced(
        &["run"],
        &["-e", "inject=fdatasync:signal=KILL:when=3"],
        &file,
    );
    assert_eq!(said.code, -1, "{}", said.err);
    assert!(world.store().paths.journal.metadata().is_ok());
    world
}

/// Traces a call and returns what it did itself, and what it started.
fn traced(name: &str, world: &World, command: &[&str]) -> (Vec<Call>, PathBuf) {
    let file = trace_dir(name).join(format!("{}.trace", command.join("-")));
    let said = world.traced(command, ALL, &file);
    assert!(
        [0, 1, 124].contains(&said.code),
        "{command:?}: {}",
        said.err
    );
    let calls = trace::own(&trace::read(&file));
    assert!(calls.len() > 50, "{}: too short", file.display());
    (calls, file)
}

fn disturbs(call: &Call) -> bool {
    let line = &call.line;
    match call.name.as_str() {
        "clone" | "clone3" | "fork" | "vfork" | "exit_group" => false,
        "execve" => line.contains("bin/sbatch\", [") || line.contains("bin/scancel\", ["),
        "openat" => trace::opens_for_writing(line) && !line.contains("\"/dev/"),
        "write" | "writev" => !line.contains("<pipe:") && !line.contains("<anon_inode:"),
        name => trace::changes(name, line),
    }
}

struct Order {
    calls: Vec<Call>,
    file: PathBuf,
}

impl Order {
    fn first(&self, from: usize, name: &str, words: &[&str]) -> Option<usize> {
        self.calls
            .iter()
            .skip(from)
            .position(|call| call.name == name && words.iter().all(|word| call.line.contains(word)))
            .map(|at| at + from)
    }

    /// Finds the next such call; there must be one.
    fn after(&self, from: usize, name: &str, words: &[&str]) -> usize {
        match self.first(from, name, words) {
            Some(at) => at,
            None => panic!(
                "{}: no {name} of {words:?} after [{}]",
                self.file.display(),
                self.calls[from].line
            ),
        }
    }

    fn none_after(&self, from: usize, name: &str, word: &str) {
        assert_eq!(self.first(from, name, &[word]), None, "{name} of {word}");
    }

    /// The state's directory is the study's: a temporary one without an extension.
    fn sync_of_directory_after(&self, from: usize) -> usize {
        let found = self.calls.iter().skip(from).position(|call| {
            call.name == "fsync"
                && call
                    .line
                    .split_once('<')
                    .and_then(|(_, rest)| rest.split_once('>'))
                    .is_some_and(|(path, _)| !path.contains("state."))
        });
        match found {
            Some(at) => at + from,
            None => panic!(
                "{}: no sync of the directory after [{}]",
                self.file.display(),
                self.calls[from].line
            ),
        }
    }
}
