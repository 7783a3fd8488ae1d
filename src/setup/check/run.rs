//! Runs the topics at the same time, each in a thread of its own and within a time of its own, so that a file system or
//! a Slurm that hangs costs its own findings only.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::site::Found;
use super::slurm::Inquiry;
use super::state::Study;
use super::{
    Finding, Site, UnderCron, cron, environment, markers, notify, places, roots, scripts, sessions,
    settings, state,
};
use crate::base::sys;
use crate::gather::sessions::discover::{Discovery, discover_by};

/// For what looks at file systems.
const LIMIT: Duration = Duration::from_secs(60);
/// For what asks Slurm, all together.
const SLURM_LIMIT: Duration = Duration::from_secs(150);

/// A topic at work.
struct Part<T> {
    topic: &'static str,
    limit: Duration,
    since: Instant,
    done: Receiver<T>,
}

impl<T: Send + 'static> Part<T> {
    fn start(
        topic: &'static str,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Self {
        let (sender, done) = mpsc::channel();
        // Nobody listens any more after the limit. A thread that hangs ends with the process. Where there is no thread
        // to be had, the part is missing and says so.
        let _ = std::thread::Builder::new().spawn(move || sender.send(work()));
        Self {
            topic,
            limit,
            since: Instant::now(),
            done,
        }
    }

    /// Waits for the result. An error is the finding that there is none.
    fn finish(self) -> Result<T, Vec<Finding>> {
        let left = self.limit.saturating_sub(self.since.elapsed());
        self.done.recv_timeout(left).map_err(|error| {
            let text = match error {
                RecvTimeoutError::Timeout => {
                    format!("was not done within {} s", self.limit.as_secs())
                }
                RecvTimeoutError::Disconnected => "could not be done: there was no thread to be had, or the program has a fault there".to_owned(),
            };
            let advice = "is a file system, the name service or a server hung? `ls`, `df` and `squeue` in a shell tell which";
            vec![Finding::error(self.topic, "", text, advice)]
        })
    }
}

/// Looks at everything. `cron`: what differs under cron is asked for, too.
pub fn run(site: Site, cron: Option<UnderCron>) -> Vec<Finding> {
    let site = Arc::new(site);
    // What others need first.
    let of = Arc::clone(&site);
    let discovery = Part::start("sessions", LIMIT, move || {
        discover_by(&of.reader, &of.config.search())
    });
    let of = Arc::clone(&site);
    let study = Part::start("state", LIMIT, move || state::read(&of));
    let topics: [(&str, fn(&Site) -> Vec<Finding>); 3] = [
        ("script", scripts::check),
        ("state_file", places::check),
        ("notify", notify::check),
    ];
    let mut parts: Vec<Part<Vec<Finding>>> = Vec::new();
    for (topic, check) in topics {
        let of = Arc::clone(&site);
        parts.push(Part::start(topic, LIMIT, move || check(&of)));
    }
    let mut findings = settings::judge(&site.config);
    findings.extend(environment::judge(&site.config, &|name| {
        Some(sys::env(name)?.to_string_lossy().into_owned())
    }));
    let mut taken = |missing: Vec<Finding>| findings.extend(missing);
    let discovery = discovery.finish().map(Arc::new).map_err(&mut taken).ok();
    let study = study.finish().and_then(|study| study);
    let study = study.map(Arc::new).map_err(&mut taken).ok();
    for key in ["dicom_root", "bids_root", "derivatives_root"] {
        let (of, study) = (Arc::clone(&site), study.clone());
        parts.push(Part::start(key, LIMIT, move || {
            roots::check(&of, key, study.as_deref().map(|study| &study.state))
        }));
    }
    if let Some(discovery) = &discovery {
        let (of, found) = (Arc::clone(&site), Arc::clone(discovery));
        parts.push(Part::start("sessions", LIMIT, move || {
            sessions::check(&of, &found)
        }));
        let (of, found, study) = (Arc::clone(&site), Arc::clone(discovery), study.clone());
        parts.push(Part::start("markers", LIMIT, move || {
            markers::check(&of, &found, study.as_deref().map(|study| &study.state))
        }));
    }
    parts.extend(slurm_or_cron(&site, &discovery, &study, cron));
    if let Some(study) = &study {
        findings.extend(state::check(&site, study, sessions_of(&discovery)));
    }
    for part in parts {
        findings.extend(part.finish().unwrap_or_else(|missing| missing));
    }
    findings
}

fn sessions_of(discovery: &Option<Arc<Found>>) -> Option<&Discovery> {
    discovery.as_ref()?.as_ref().as_ref().ok()
}

/// Starts the part about Slurm; without it, the one about the crontab if that is asked for.
fn slurm_or_cron(
    site: &Arc<Site>,
    discovery: &Option<Arc<Found>>,
    study: &Option<Arc<Study>>,
    cron: Option<UnderCron>,
) -> Option<Part<Vec<Finding>>> {
    let (site, discovery, study) = (Arc::clone(site), discovery.clone(), study.clone());
    if !site.is_slurm() {
        let cron = cron?;
        return Some(Part::start("cron", LIMIT, move || {
            cron::check(&site, &cron, None, LIMIT)
        }));
    }
    // Twice under cron, and each may take its time.
    let times = 1 + u32::from(cron.is_some());
    Some(Part::start("slurm", SLURM_LIMIT * times, move || {
        let inquiry = Inquiry::new(&site, sessions_of(&discovery), study.as_deref());
        let own = std::env::vars_os().collect();
        let report = inquiry.ask(&site.config, own, SLURM_LIMIT, false);
        let mut findings = inquiry.judge(&site.config, &report);
        if let Some(under_cron) = cron {
            let here = Some((&inquiry, &report, &findings[..]));
            let told = cron::check(&site, &under_cron, here, SLURM_LIMIT);
            findings.extend(told);
        }
        findings
    }))
}
