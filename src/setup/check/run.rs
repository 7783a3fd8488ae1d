//! Runs the topics at the same time, each in a thread of its own and within a time of its own, so that a file system or
//! a Slurm that hangs costs its own findings only.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::slurm::Inquiry;
use super::{
    Finding, Findings, Site, UnderCron, cron, environment, markers, notify, places, roots, scripts,
    sessions, settings, state,
};
use crate::base::sys;

/// For what looks at file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// For what asks Slurm, all together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

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

/// Looks at everything. `cron`: what differs under cron is asked for, too.
pub fn run(site: Site, cron: Option<UnderCron>, findings: &mut Findings) {
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
    let topics: [(&str, fn(&Site, &mut Findings)); 9] = [
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
        ("markers", markers::check),
        ("state", state::check),
    ];
    let topics = topics.into_iter();
    let start = |(topic, check)| Part::start(&site, topic, LIMIT, check);
    let mut parts: Vec<Part> = topics.map(start).collect();
    // Twice under cron, and each may take its time.
    let limit = SLURM_LIMIT * (1 + u32::from(cron.is_some()));
    parts.push(Part::start(&site, "slurm", limit, move |site, out| {
        slurm_and_cron(site, cron.as_ref(), out);
    }));
    findings
        .list
        .extend(parts.into_iter().flat_map(Part::finish));
}

fn slurm_and_cron(site: &Site, under_cron: Option<&UnderCron>, findings: &mut Findings) {
    let check = |here, findings: &mut Findings| {
        if let Some(under_cron) = under_cron {
            cron::check(site, under_cron, here, SLURM_LIMIT, findings);
        }
    };
    if !site.is_slurm() {
        return check(None, findings);
    }
    let inquiry = Inquiry::new(site);
    let own = std::env::vars_os().collect();
    let report = inquiry.ask(&site.config, own, SLURM_LIMIT, false);
    inquiry.judge(&site.config, &report, findings);
    let here = findings.list.clone();
    check(Some((&inquiry, &report, &here)), findings);
}
