//! Runs the topics in parallel, each with its own thread and time limit, so that a hanging file system or Slurm
//! affects only its own findings.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{
    Finding, Findings, Site, environment, notify, places, roots, scripts, sessions, settings,
    slurm, state,
};
use crate::base::sys;

/// Time limit for checks of file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit for all queries to Slurm together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

type Check = fn(&Site, &mut Findings);

/// A topic that is being checked.
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
        // After the limit, the result is dropped. A hanging thread ends with the process. If no thread can be started,
        // `finish` reports it.
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

    /// Waits for the findings. Returns an error finding after the time limit.
    fn finish(self) -> Vec<Finding> {
        let left = self.limit.saturating_sub(self.since.elapsed());
        self.done.recv_timeout(left).unwrap_or_else(|error| {
            let mut findings = Findings::default();
            let text = match error {
                RecvTimeoutError::Timeout => {
                    format!("did not finish within {} s", self.limit.as_secs())
                }
                RecvTimeoutError::Disconnected => "could not run: starting a thread failed, or the program has a bug".to_owned(),
            };
            let remedy = "find out whether a file system, the name service or a server hangs: try `ls`, `df` and `squeue` in a shell";
            findings.about(self.topic, "").error(text, remedy);
            findings.list
        })
    }
}

pub fn run(site: Site, findings: &mut Findings) {
    let env = |name: &str| Some(sys::env(name)?.to_string_lossy().into_owned());
    settings::check(&site.config, findings);
    environment::check(&site.config, &env, findings);
    let site = Arc::new(site);
    // Other topics need these results.
    let first = [
        Part::start(&site, "sessions", LIMIT, sessions::discover),
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
