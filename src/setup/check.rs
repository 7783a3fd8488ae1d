//! Checks the setup of a site and lists findings with their remedies. Leaves no changes behind.
//!
//! There is one file per topic. Its entry functions (mostly `check`) read the site; those that turn values into findings are pure.
//! [`run`] checks the topics in parallel, each with its own thread and time limit, so that a hanging file system or Slurm
//! affects only its own findings.

pub mod cron;
mod data;
mod notify;
mod places;
mod scripts;
pub mod settings;
pub mod slurm;
pub mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use polars::prelude::DataFrame;

use crate::base::sys;
use crate::base::text::{self, maybe, plural};
use crate::executor::ExecutorError;
use crate::executor::script::find_on_path;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::{DiscoverError, Discovery};
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::model::procedure::Procedure;
use crate::model::state::{State, TaskRow};
use crate::show::tables::{TableError, frame, texts};
use crate::store::state_file::Store;
use crate::store::verify;

pub use crate::store::verify::Level;

/// The input of all topics: the configuration, and the parts of the study that are read once. Shared by all threads.
pub struct Site {
    pub config: Config,
    pub reader: Reader,
    /// The discovered sessions. Empty if that took too long.
    pub found: OnceLock<Result<Discovery, DiscoverError>>,
    /// Empty if it cannot be read, or not in time.
    pub study: OnceLock<Study>,
}

/// The state and the files beside it.
pub struct Study {
    pub state: State,
    pub store: Store,
    pub attempts: Vec<TaskRow>,
    /// The findings of `state verify`.
    pub verified: Vec<verify::Finding>,
}

impl Site {
    pub fn new(config: Config) -> Self {
        Self {
            reader: Reader::default().with_annex(config.annex),
            config,
            found: OnceLock::new(),
            study: OnceLock::new(),
        }
    }

    /// The discovered sessions, if discovery succeeded.
    pub fn discovery(&self) -> Option<&Discovery> {
        self.found.get()?.as_ref().ok()
    }

    /// Finds a script like the executor.
    pub fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        find_on_path(script, &self.config.script_dirs())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// A word that scripts rely on, such as `config`, `dicom_root`, `script` or `lock`.
    pub topic: &'static str,
    /// The procedure, path or partition concerned; empty for the entire site.
    pub about: String,
    pub text: String,
    /// `None` if the level is ok.
    pub remedy: Option<String>,
}

/// All topics, in the order of the output. Scripts rely on the words.
pub const TOPICS: &str = "config environment dicom_root bids_root derivatives_root sessions script markers procedure state_file log_file log_dir lock \
     clock state slurm queue accounting partition submission executor safety notify cron";

/// Collects findings about a current topic.
#[derive(Default)]
pub struct Findings {
    topic: &'static str,
    about: String,
    /// Number of findings when the current topic was set.
    before: usize,
    pub list: Vec<Finding>,
}

impl Findings {
    fn about(&mut self, topic: &'static str, about: impl ToString) -> &mut Self {
        self.topic = topic;
        self.about = about.to_string();
        self.before = self.list.len();
        self
    }

    fn ok(&mut self, text: impl Into<String>) {
        self.add(Level::Ok, text, "");
    }

    fn warning(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Warning, text, remedy);
    }

    /// Warns of everything in a list, unless it is empty. `text` ends with a colon.
    fn warn_of<S: AsRef<str>>(&mut self, text: impl Display, list: &[S], remedy: &str) {
        if !list.is_empty() {
            self.warning(format!("{text} {}", few(list)), remedy);
        }
    }

    fn error(&mut self, text: impl Into<String>, remedy: impl Into<String>) {
        self.add(Level::Error, text, remedy);
    }

    fn add(&mut self, level: Level, text: impl Into<String>, remedy: impl Into<String>) {
        self.list.push(Finding {
            level,
            topic: self.topic,
            about: self.about.clone(),
            text: text.into(),
            remedy: (level != Level::Ok).then(|| remedy.into()),
        });
    }

    /// Warns of what every user of the machine can do to a path with these permission bits. A sticky directory is safe.
    fn writable_by_all(&mut self, path: &Path, mode: Option<u32>, what: &str) {
        if mode.is_some_and(|mode| mode & 0o1002 == 0o002) {
            let text = format!("every user of the machine can {what}");
            self.warning(text, format!("run chmod o-w {}", path.display()));
        }
    }

    /// Adds an ok finding if there is no finding about a topic.
    fn ok_if_none(&mut self, topic: &'static str, text: impl Into<String>) {
        if !self.list.iter().any(|finding| finding.topic == topic) {
            self.about(topic, "").ok(text);
        }
    }

    /// Adds an ok finding if the current topic has no other one.
    fn or_ok(&mut self, text: impl Into<String>) {
        if self.list.len() == self.before {
            self.ok(text);
        }
    }
}

/// File systems store times in steps of up to two seconds, and Slurm reports whole seconds.
const SKEW: TimeDelta = TimeDelta::seconds(5);
const GREAT_SKEW: TimeDelta = TimeDelta::minutes(10);

/// A time of this host, then of another clock, then again of this host.
type ClockReading = [DateTime<Utc>; 3];

impl Findings {
    /// Compares another clock with this host's. `why` is the reason why it matters.
    fn clock(&mut self, about: impl ToString, whose: &str, reading: ClockReading, why: &str) {
        let [before, other, after] = reading;
        let (early, late) = (other - after, before - other);
        let skew = early.max(late);
        self.about("clock", about);
        if skew < SKEW {
            return self.ok(format!("{whose} clock and this host's agree"));
        }
        let level = match skew < GREAT_SKEW {
            true => Level::Warning,
            false => Level::Error,
        };
        let (seconds, way) = match late > early {
            true => (skew.num_seconds(), "behind"),
            false => (skew.num_seconds(), "ahead of"),
        };
        self.add(
            level,
            format!("{whose} clock is {seconds} s {way} this host's"),
            format!("synchronize both with the same time server (chrony, ntp): {why}"),
        );
    }
}

/// Sorts findings for the output: by level, worst first, then by topic.
pub fn sort(findings: &mut [Finding]) {
    let place = |topic: &str| TOPICS.split(' ').position(|known| known == topic);
    findings.sort_by_key(|finding| (Reverse(finding.level), place(finding.topic)));
}

/// A row per finding: `level, topic, about, finding, advice, todo`. The last two are equal; `advice` is the old name.
pub fn checks_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let column =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    frame(vec![
        column("level", |f| Some(f.level.as_str())),
        column("topic", |f| Some(f.topic)),
        column("about", |f| Some(&f.about)),
        column("finding", |f| Some(&f.text)),
        column("advice", |f| f.remedy.as_deref()),
        column("todo", |f| f.remedy.as_deref()),
    ])
}

/// Combines findings for people: the same problem of several procedures becomes one finding.
pub fn combined(findings: Vec<Finding>) -> Vec<Finding> {
    let mut combined: Vec<Finding> = Vec::with_capacity(findings.len());
    for finding in findings {
        let same = combined.iter_mut().find(|other| {
            finding.level != Level::Ok
                && (other.level, other.topic) == (finding.level, finding.topic)
                && (&other.text, &other.remedy) == (&finding.text, &finding.remedy)
        });
        match same {
            Some(other) => other.about = format!("{}, {}", other.about, finding.about),
            None => combined.push(finding),
        }
    }
    combined
}

/// A summary in one line.
pub fn verdict(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let warnings = (warnings > 0).then(|| plural(warnings, "warning"));
    match (errors, warnings) {
        (0, None) => format!("{} passed", plural(findings.len(), "check")),
        (0, Some(warnings)) => format!("usable with {warnings}"),
        (_, more) => format!(
            "failed: {}{}",
            plural(errors, "error"),
            maybe(", ", more, "")
        ),
    }
}

/// Time limit for checks of file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for all queries to Slurm together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

type Check = fn(&Site, &mut Findings);

/// Starts to check a topic. Returns how to wait for its findings, or for an error finding after the time limit.
fn start(
    site: &Arc<Site>,
    (topic, limit, check): (&'static str, Duration, Check),
) -> impl FnOnce() -> Vec<Finding> + use<> {
    let (sender, done) = mpsc::channel();
    let (site, since) = (Arc::clone(site), Instant::now());
    // After the limit, the result is dropped. A hanging thread ends with the process.
    let _ = std::thread::Builder::new().spawn(move || {
        let mut findings = Findings::default();
        check(&site, findings.about(topic, ""));
        sender.send(findings.list)
    });
    move || {
        let left = limit.saturating_sub(since.elapsed());
        done.recv_timeout(left).unwrap_or_else(|error| {
            let text = match error {
                RecvTimeoutError::Timeout => {
                    format!("did not finish within {} s", limit.as_secs())
                }
                RecvTimeoutError::Disconnected => "could not run: starting a thread failed, or the program has a bug".to_owned(),
            };
            let remedy = "find out whether a file system, the name service or a server hangs: try `ls`, `df` and `squeue` in a shell";
            let mut findings = Findings::default();
            findings.about(topic, "").error(text, remedy);
            findings.list
        })
    }
}

pub fn run(site: Site, findings: &mut Findings) {
    let env = |name: &str| Some(sys::env(name)?.to_string_lossy().into_owned());
    settings::check(&site.config, findings);
    settings::environment(&site.config, &env, findings);
    let site = Arc::new(site);
    // Other topics need these results.
    let first: [(_, _, Check); 2] = [
        ("sessions", LIMIT, data::discover),
        ("state", LIMIT, state::read),
    ];
    let topics: [(_, _, Check); 10] = [
        ("script", LIMIT, scripts::check),
        ("state_file", LIMIT, places::check),
        ("notify", LIMIT, notify::check),
        ("dicom_root", LIMIT, data::roots),
        ("bids_root", LIMIT, data::roots),
        ("derivatives_root", LIMIT, data::roots),
        ("sessions", LIMIT, data::sessions),
        ("markers", LIMIT, settings::markers),
        ("state", LIMIT, state::check),
        ("slurm", SLURM_LIMIT, slurm::check),
    ];
    for group in [first.as_slice(), topics.as_slice()] {
        let started: Vec<_> = group.iter().map(|part| start(&site, *part)).collect();
        let found = started.into_iter().flat_map(|finish| finish());
        findings.list.extend(found);
    }
}

/// The first three entries of a list.
fn few<S: AsRef<str>>(names: &[S]) -> String {
    text::few(names, 3)
}
