//! Drives the scheduler's own pass over the world: real store, real journal, real lock, real audit log.

use std::cell::{Cell, RefCell};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use snbb_scheduler::act::pass::{Decided, Looked, Pass, PassError, RunOptions};
use snbb_scheduler::act::submit::Submitted;
use snbb_scheduler::config::{Overrides, load};
use snbb_scheduler::decide::manifest::Policy;
use snbb_scheduler::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use snbb_scheduler::model::config::Config;
use snbb_scheduler::model::state::{State, TaskKey, TaskStatus};
use snbb_scheduler::store::lock::{Lock, LockError};
use snbb_scheduler::store::state_file::{LockedStore, Store};
use tempfile::TempDir;

use super::hand::{Death, Disk, Hand, Shared, die};
use super::invariants;
use super::world::{Accounting, World};

pub const PROJECT: &str = "p";

/// Is a study with its world.
pub struct Rig {
    /// Removes the files at the end.
    _dir: TempDir,
    pub config: Config,
    pub store: Store,
    pub sessions: Vec<Session>,
    pub world: Shared,
    calls: u32,
    arrays: Option<usize>,
    /// The files as they were after each step, oldest first.
    pub kept: Vec<Files>,
}

/// Holds the bytes of state, copy, attempts and journal. None: there is no such file.
pub type Files = [Option<Vec<u8>>; 4];

/// Says how a call of the program goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// `monitor` instead of `run`.
    pub only_look: bool,
    pub force: bool,
    /// The process dies when it reads the clock for the n-th time.
    pub dies_at: Option<u8>,
    pub aftermath: Aftermath,
    /// Another call tries its luck meanwhile.
    pub rival: bool,
}

/// Says where the process dies while it saves for the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Aftermath {
    #[default]
    Survives,
    /// Before the state file is replaced.
    KeepsOldState,
    /// Before the journal is removed.
    KeepsJournal,
}

/// Tells what came of a call.
#[derive(Debug)]
pub enum Ended {
    Done(Box<Told>),
    /// What it had seen of the world counts for nothing.
    Died,
    Failed(PassError),
}

/// Holds what a finished call would have printed, and what its executor had seen.
#[derive(Debug)]
pub struct Told {
    /// None: a monitor.
    pub decided: Option<Decided>,
    pub submitted: Submitted,
    pub seen: Vec<(snbb_scheduler::model::job::JobId, String)>,
}

/// Is one call between its steps.
pub struct Caller {
    pub locked: LockedStore,
    pub state: State,
    run_id: String,
    call: Call,
    clock_reads: Cell<u8>,
    seen: Vec<(snbb_scheduler::model::job::JobId, String)>,
    looked: Option<Looked>,
    decided: Option<Decided>,
    submitted: Submitted,
    /// The files as they were at the last sbatch.
    at_sbatch: RefCell<Option<Files>>,
}

impl Rig {
    /// `arrays`: all steps are submitted as arrays of so many tasks at most.
    pub fn new(accounting: Accounting, submit_line: bool, arrays: Option<usize>) -> Self {
        // In memory, where there is such a place: thousands of passes sync their files.
        let dir = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let file = dir.path().join("config.yaml");
        let roots: String = ["dicom", "bids", "derivatives"]
            .iter()
            .map(|root| format!("{root}_root: {root}\n"))
            .collect();
        let mode = if arrays.is_some() { "always" } else { "never" };
        let text = format!(
            "array: {mode}\n{roots}state_file: state.parquet\nproject: {PROJECT}\nscan_threads: 1\npause_after_failures: 0\n\
             retry: {{max_attempts: 3, on: [exit_code, timeout, node_fail, preempted, out_of_memory]}}\nprocedures:\n\
             - {{name: a, output_dir: a, script: a.sh}}\n\
             - {{name: b, output_dir: b, script: b.sh, depends_on: [a]}}\n\
             - {{name: c, output_dir: c, script: c.sh, scope: subject, depends_on: [a]}}\n"
        );
        fs::write(&file, text).unwrap();
        let (config, _) = load(Some(&file), &|_| None, &Overrides::default(), dir.path()).unwrap();
        let session = |subject, session| Session {
            subject: SubjectLabel::new(subject).unwrap(),
            session: SessionLabel::new(session).unwrap(),
            dicom: Dicom::NotNeeded,
        };
        Self {
            store: Store::at(&config.state_file).unwrap(),
            sessions: vec![
                session("sub-01", "ses-01"),
                session("sub-01", "ses-02"),
                session("sub-02", "ses-01"),
            ],
            world: Shared::new(World::new(accounting, submit_line)),
            calls: 0,
            arrays,
            kept: Vec::new(),
            config,
            _dir: dir,
        }
    }

    /// Names all tasks, in the manifest's order.
    pub fn tasks() -> Vec<TaskKey> {
        let sessions = [
            ("sub-01", "ses-01"),
            ("sub-01", "ses-02"),
            ("sub-02", "ses-01"),
        ];
        let mut tasks: Vec<TaskKey> = ["a", "b"]
            .iter()
            .flat_map(|name| {
                sessions.map(|(subject, session)| TaskKey::new(subject, session, name))
            })
            .collect();
        tasks.extend(["sub-01", "sub-02"].map(|subject| TaskKey::new(subject, "", "c")));
        tasks
    }

    pub fn read(&self) -> State {
        self.store.read().unwrap()
    }

    /// Runs the program once under the real lock, and judges what it did.
    pub fn call(&mut self, call: Call) -> Ended {
        let before = self.read();
        let ended = self.call_unjudged(call);
        invariants::after_call(self, &before, &ended);
        ended
    }

    fn call_unjudged(&mut self, call: Call) -> Ended {
        let before = self.files();
        let locked = self
            .store
            .clone()
            .lock("run", Duration::ZERO)
            .expect("nobody holds the lock");
        let caller = self.caller(locked, call);
        let this = &*self;
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut caller = caller;
            while !caller.step(this, &|| this.rival(call))? {
                this.rival(call);
            }
            Ok((caller.at_sbatch.take(), caller.told()))
        }));
        let (at_sbatch, told) = match result {
            Ok(Ok(told)) => told,
            Ok(Err(error)) => return Ended::Failed(error),
            Err(payload) if payload.is::<Death>() => return Ended::Died,
            Err(panic) => resume_unwind(panic),
        };
        // Without an sbatch there is no journal, and both ways to die leave whole states.
        let Some(at_sbatch) = at_sbatch else {
            return match call.aftermath {
                Aftermath::KeepsOldState => {
                    self.put_files(&before);
                    Ended::Died
                }
                _ => Ended::Done(Box::new(told)),
            };
        };
        match call.aftermath {
            Aftermath::Survives => return Ended::Done(Box::new(told)),
            Aftermath::KeepsOldState => self.put_files(&at_sbatch),
            Aftermath::KeepsJournal => {
                let [state, copy, attempts, _] = self.files();
                let [_, _, _, journal] = at_sbatch;
                self.put_files(&[state, copy, attempts, journal]);
            }
        }
        Ended::Died
    }

    /// While the lock is held, another call leaves at once.
    fn rival(&self, call: Call) {
        if call.rival {
            let other = self.store.clone().lock("run", Duration::ZERO);
            assert!(matches!(other, Err(LockError::Held { .. })), "{other:?}");
        }
    }

    /// Runs the program twice at the same time, each with a lock that grants itself to everybody.
    /// `turns` says who takes the next step; while one submits, the other may do all of its own.
    pub fn two_calls(&mut self, turns: &[bool], nested: bool) {
        self.world.get().lock_lies = true;
        let mut first = Some(self.unlocked_caller());
        let mut second = Some(self.unlocked_caller());
        let this = &*self;
        let all = [true, true, true, false, false, false];
        for turn in turns.iter().copied().chain(all) {
            let (mine, other) = match turn {
                true => (&mut first, &mut second),
                false => (&mut second, &mut first),
            };
            let Some(mut caller) = mine.take() else {
                continue;
            };
            let other = RefCell::new(other);
            let meanwhile = || {
                let rival = if nested {
                    other.borrow_mut().take()
                } else {
                    None
                };
                if let Some(mut rival) = rival {
                    while matches!(rival.step(this, &|| ()), Ok(false)) {}
                }
            };
            // An error (the state was changed by the other) ends this call; that is all it does.
            if matches!(caller.step(this, &meanwhile), Ok(false)) {
                *mine = Some(caller);
            }
        }
        drop((first, second));
        let mut world = self.world.get();
        world.lock_lies = false;
        for key in Self::tasks() {
            if world.live(&key).len() > 1 {
                world.excused.push(key);
            }
        }
    }

    fn unlocked_caller(&mut self) -> Caller {
        let locked = self.store.clone().locked_by(Lock::unlocked());
        self.caller(locked, Call::default())
    }

    fn caller(&mut self, locked: LockedStore, call: Call) -> Caller {
        self.calls += 1;
        let mut state = locked.read().unwrap();
        state.meta.project.get_or_insert_with(|| PROJECT.to_owned());
        Caller {
            locked,
            state,
            run_id: format!("r{}", self.calls),
            call,
            clock_reads: Cell::new(0),
            seen: Vec::new(),
            looked: None,
            decided: None,
            submitted: Submitted::default(),
            at_sbatch: RefCell::new(None),
        }
    }

    /// Clears a failed row, as `retry` does.
    pub fn retry(&mut self, key: &TaskKey) {
        let locked = self.store.clone().lock("retry", Duration::ZERO).unwrap();
        let mut state = locked.read().unwrap();
        if state
            .get(key)
            .is_some_and(|row| row.status == TaskStatus::Failed)
        {
            state.clear(key);
            locked.save(&mut state).unwrap();
        }
    }

    fn paths(&self) -> [&PathBuf; 4] {
        let paths = &self.store.paths;
        [&paths.state, &paths.backup, &paths.attempts, &paths.journal]
    }

    pub fn files(&self) -> Files {
        self.paths().map(|path| fs::read(path).ok())
    }

    pub fn put_files(&self, files: &Files) {
        for (path, bytes) in self.paths().into_iter().zip(files) {
            match bytes {
                Some(bytes) => fs::write(path, bytes).unwrap(),
                None => {
                    let _ = fs::remove_file(path);
                }
            }
        }
    }
}

impl Caller {
    /// Takes the next of the steps look, decide, carry out; true after the last one. `meanwhile` is
    /// called after each submission.
    fn step(&mut self, rig: &Rig, meanwhile: &dyn Fn()) -> Result<bool, PassError> {
        let disk = Disk {
            world: rig.world.clone(),
            procedures: ["a", "b", "c"].map(str::to_owned).to_vec(),
        };
        let at_sbatch = &self.at_sbatch;
        let mut hand = Hand {
            world: rig.world.clone(),
            seen: None,
            before_sbatch: &|| *at_sbatch.borrow_mut() = Some(rig.files()),
            arrays: rig.arrays,
        };
        let reads = &self.clock_reads;
        let dies_at = self.call.dies_at;
        let clock = || {
            reads.set(reads.get().saturating_add(1));
            if dies_at == Some(reads.get()) {
                die();
            }
            rig.world.get().host_now()
        };
        let started = rig.world.get().host_now();
        let mut pass = Pass {
            config: &rig.config,
            project: PROJECT,
            run_id: &self.run_id,
            executor: &mut hand,
            completions: &disk,
            clock: &clock,
            pause: &|time| {
                let seconds = i64::try_from(time.as_secs()).unwrap();
                rig.world.get().wait(seconds);
            },
        };
        let Some(looked) = &self.looked else {
            let looked = pass.look(&mut self.state);
            self.seen = hand.seen.unwrap_or_default();
            self.looked = Some(looked);
            return Ok(false);
        };
        if self.call.only_look {
            pass.save(&self.locked, &mut self.state, &looked.events)?;
            return Ok(true);
        }
        let Some(decided) = &self.decided else {
            let wishes = RunOptions {
                policy: Policy {
                    force: self.call.force,
                    ..Policy::default()
                },
                ..RunOptions::default()
            };
            let state = &mut self.state;
            self.decided =
                Some(pass.decide(&rig.store, state, &rig.sessions, looked, &wishes, &|| ())?);
            return Ok(false);
        };
        let submitted =
            pass.carry_out(&self.locked, &mut self.state, decided, started, meanwhile)?;
        self.submitted = submitted;
        Ok(true)
    }

    fn told(self) -> Told {
        Told {
            decided: self.decided,
            submitted: self.submitted,
            seen: self.seen,
        }
    }
}
