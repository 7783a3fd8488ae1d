//! What happens at a site, when, and who calls the program: made from a seed, before anything begins. Pure.

use std::time::Duration;

/// Numbers that look random and are the same each time (SplitMix64).
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.between(from, to))
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            list.swap(last, other);
        }
    }
}

/// Is something that happens to the site. Numbers choose among what is there at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Sessions of a new subject: how many.
    Subject(u64),
    /// One more session of a subject that is there.
    Session(u64),
    /// A job is cancelled by its user, or by root.
    Scancel { by_root: bool, which: u64 },
    /// Somebody puts a running job back into the queue.
    Requeue(u64),
    /// The node takes no new jobs for a while.
    Drain(Duration),
    /// The node is down: its jobs have failed, or are requeued.
    Down(Duration),
    /// A daemon is stopped properly and started.
    Restart(Daemon),
    /// A daemon dies and is started after a while.
    Kill(Daemon, Duration),
    /// A daemon answers nothing for a while.
    Freeze(Daemon, Duration),
    /// The directory of the DICOM files is not mounted for a while.
    Unmount(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    Controller,
    Database,
    Node,
}

impl Daemon {
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "slurmctld",
            Self::Database => "slurmdbd",
            Self::Node => "slurmd",
        }
    }
}

/// Is one call of the program on a login node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// After the end of the call before.
    pub pause: Duration,
    pub command: Command,
    pub kill: Option<Kill>,
}

/// When a call is killed, counted from its start; `deep`: with the commands that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kill {
    pub after: Duration,
    pub deep: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// As it stands.
    Words(Vec<&'static str>),
    /// Cancels the tasks of a subject that is there.
    Cancel(u64),
    /// Explains a subject that is there.
    Explain(u64),
}

#[derive(Debug)]
pub struct Plan {
    /// Sorted by time.
    pub events: Vec<(Duration, Event)>,
    /// Per login node, more than there is time for.
    pub calls: [Vec<Call>; 2],
}

/// Makes the plan of so many minutes.
pub fn plan(minutes: u64, seed: u64) -> Plan {
    let end = Duration::from_secs(60 * minutes);
    let mut events = arrivals(end, &mut Numbers::new(seed ^ 0xa1));
    events.extend(troubles(end, &mut Numbers::new(seed ^ 0xb2)));
    events.sort_by_key(|(at, _)| *at);
    let calls = [0xc3, 0xd4].map(|node| {
        let mut numbers = Numbers::new(seed ^ node);
        (0..minutes * 60).map(|_| call(&mut numbers)).collect()
    });
    Plan { events, calls }
}

fn arrivals(end: Duration, numbers: &mut Numbers) -> Vec<(Duration, Event)> {
    let mut events = vec![(Duration::ZERO, Event::Subject(3))];
    let mut at = Duration::from_secs(1);
    while at < end {
        let event = match numbers.below(4) {
            0 => Event::Session(numbers.below(1000)),
            _ => Event::Subject(numbers.between(1, 3)),
        };
        events.push((at, event));
        at += numbers.millis(3000, 11_000);
    }
    events
}

/// Every kind of trouble comes once before any comes again.
fn troubles(end: Duration, numbers: &mut Numbers) -> Vec<(Duration, Event)> {
    let mut events = Vec::new();
    let mut at = Duration::from_secs(8);
    let mut deck = Vec::new();
    while at < end {
        if deck.is_empty() {
            deck = (0..13).collect();
            numbers.shuffle(&mut deck);
        }
        let event = match deck.pop().unwrap() {
            0 => Event::Scancel {
                by_root: false,
                which: numbers.below(1000),
            },
            1 => Event::Scancel {
                by_root: true,
                which: numbers.below(1000),
            },
            2 => Event::Requeue(numbers.below(1000)),
            3 => Event::Drain(numbers.millis(4000, 12_000)),
            4 => Event::Down(numbers.millis(3000, 8000)),
            5 => Event::Restart(Daemon::Controller),
            6 => Event::Restart(Daemon::Database),
            7 => Event::Restart(Daemon::Node),
            8 => Event::Kill(Daemon::Database, numbers.millis(2000, 9000)),
            9 => Event::Freeze(Daemon::Controller, numbers.millis(2000, 7000)),
            10 => Event::Freeze(Daemon::Database, numbers.millis(2000, 9000)),
            11 => Event::Freeze(Daemon::Node, numbers.millis(2000, 6000)),
            _ => Event::Unmount(numbers.millis(2000, 6000)),
        };
        events.push((at, event));
        at += numbers.millis(4000, 11_000);
    }
    events
}

fn call(numbers: &mut Numbers) -> Call {
    let command = match numbers.below(100) {
        0..55 => Command::Words(match numbers.below(6) {
            0 => vec!["run", "--lock-timeout", "0s"],
            1 => vec!["run", "--max-jobs", "2"],
            2 => vec!["run", "--skip-monitor"],
            _ => vec!["run"],
        }),
        55..70 => Command::Words(vec!["monitor"]),
        70..80 => Command::Words(match numbers.below(5) {
            0 => vec!["retry", "--reason", "exit_code"],
            1 => vec!["retry", "--reason", "no_output", "--accept-outputs"],
            2 => vec!["retry", "--status", "all"],
            3 => vec!["retry", "--reason", "cancelled"],
            _ => vec!["retry"],
        }),
        80..84 => Command::Cancel(numbers.below(1000)),
        84..88 => Command::Words(match numbers.below(2) {
            0 => vec!["pause", "--note", "soak"],
            _ => vec!["pause", "--procedure", "prep"],
        }),
        88..92 => Command::Words(match numbers.below(2) {
            0 => vec!["resume"],
            _ => vec!["resume", "--procedure", "*"],
        }),
        92..94 => Command::Explain(numbers.below(1000)),
        _ => Command::Words(match numbers.below(5) {
            0 => vec!["run", "--dry-run"],
            1 => vec!["status"],
            2 => vec!["session-status"],
            3 => vec!["manifest"],
            _ => vec!["audit", "--format", "json"],
        }),
    };
    let kill = (numbers.below(4) == 0).then(|| Kill {
        after: numbers.millis(0, 600),
        deep: numbers.below(2) == 0,
    });
    Call {
        pause: numbers.millis(200, 3500),
        command,
        kill,
    }
}

#[test]
fn a_seed_is_a_plan() {
    let plans = [7, 7, 8].map(|seed| plan(2, seed));
    assert_eq!(plans[0].events, plans[1].events);
    assert_eq!(plans[0].calls, plans[1].calls);
    assert_ne!(plans[0].events, plans[2].events);
    assert_ne!(plans[0].calls[0], plans[0].calls[1]);
}
