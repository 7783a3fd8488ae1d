//! Runs the topics at the same time, each in a thread of its own and within a time of its own, so that a file system or
//! a Slurm that hangs costs its own findings only.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{
    Finding, Findings, Site, environment, notify, places, roots, scripts, sessions, settings,
    slurm, state,
};
use crate::base::sys;

/// For what looks at file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// For what asks Slurm, all together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

/// Looks at one topic.
type Check = fn(&Site, &mut Findings);

/// A topic at work.
struct Part {
    topic: &'static str,
    limit: Duration,
    since: Instant,
    done: Receiver<Vec<Finding>>,
}

impl Part {
    fn start(
        site: &Arc<Site>,
        topic: &'static str,
        limit: Duration,
        work: impl FnOnce(&Site, &mut Findings) + Send + 'static,
    ) -> Self {
        let (sender, done) = mpsc::channel();
        let site = Arc::clone(site);
        // Nobody listens any more after the limit. A thread that hangs ends with the process. Where there is no thread
        // to be had, the part is missing and says so.
        let _ = std::thread::Builder::new().spawn(move || {
            let mut findings = Findings::default();
            work(&site, &mut findings);
            sender.send(findings.list)
        });
        Self {
            topic,
            limit,
            since: Instant::now(),
            done,
        }
    }

    /// Waits for the findings, or returns the one that there are none.
    fn finish(self) -> Vec<Finding> {
        let left = self.limit.saturating_sub(self.since.elapsed());
        self.done.recv_timeout(left).unwrap_or_else(|error| {
            let mut findings = Findings::default();
            let text = match error {
                RecvTimeoutError::Timeout => {
                    format!("was not done within {} s", self.limit.as_secs())
                }
                RecvTimeoutError::Disconnected => "could not be done: there was no thread to be had, or the program has a fault there".to_owned(),
            };
            let advice = "is a file system, the name service or a server hung? `ls`, `df` and `squeue` in a shell tell which";
            findings.about(self.topic, "").error(text, advice);
            findings.list
        })
    }
}

/// Looks at everything.
pub fn run(site: Site, findings: &mut Findings) {
    let env = |name: &str| Some(sys::env(name)?.to_string_lossy().into_owned());
    settings::judge(&site.config, findings);
    environment::judge(&site.config, &env, findings);
    let site = Arc::new(site);
    // What others need first.
    let first = [
        Part::start(&site, "sessions", LIMIT, sessions::read),
        Part::start(&site, "state", LIMIT, state::read),
    ];
    findings
        .list
        .extend(first.into_iter().flat_map(Part::finish));
    let topics: [(&str, Check); 9] = [
        ("script", scripts::check),
        ("state_file", places::check),
        ("notify", notify::check),
        ("dicom_root", |site, out| {
            roots::check(site, "dicom_root", out)
        }),
        ("bids_root", |site, out| {
            roots::check(site, "bids_root", out)
        }),
        ("derivatives_root", |site, out| {
            roots::check(site, "derivatives_root", out)
        }),
        ("sessions", sessions::check),
        ("markers", settings::markers),
        ("state", state::check),
    ];
    let topics = topics.into_iter();
    let start = |(topic, check)| Part::start(&site, topic, LIMIT, check);
    let mut parts: Vec<Part> = topics.map(start).collect();
    if site.is_slurm() {
        parts.push(Part::start(&site, "slurm", SLURM_LIMIT, |site, out| {
            slurm::check(site, SLURM_LIMIT, out);
        }));
    }
    findings
        .list
        .extend(parts.into_iter().flat_map(Part::finish));
}
