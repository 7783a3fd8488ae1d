//! Runs the topics in parallel, each with its own thread and time limit, so that a hanging file system or Slurm
//! affects only its own findings.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{
    Finding, Findings, Site, notify, places, roots, scripts, sessions, settings, slurm, state,
};
use crate::base::sys;

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
        ("sessions", LIMIT, sessions::discover),
        ("state", LIMIT, state::read),
    ];
    let topics: [(_, _, Check); 10] = [
        ("script", LIMIT, scripts::check),
        ("state_file", LIMIT, places::check),
        ("notify", LIMIT, notify::check),
        ("dicom_root", LIMIT, roots::check),
        ("bids_root", LIMIT, roots::check),
        ("derivatives_root", LIMIT, roots::check),
        ("sessions", LIMIT, sessions::check),
        ("markers", LIMIT, settings::markers),
        ("state", LIMIT, state::check),
        ("slurm", SLURM_LIMIT, |site, out| {
            slurm::check(site, SLURM_LIMIT, out);
        }),
    ];
    for group in [first.as_slice(), topics.as_slice()] {
        let started: Vec<_> = group.iter().map(|part| start(&site, *part)).collect();
        let found = started.into_iter().flat_map(|finish| finish());
        findings.list.extend(found);
    }
}
