//! Makes happen what the plan says, ends what lasts for a while, and plays the part of people, clocks and slow
//! file systems for the jobs that wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::evidence::{Mark, job_log};
use super::plan::{Daemon, Event};
use super::site::{Act, Site};

const LATE: Duration = Duration::from_secs(3);
/// Later than `output_grace`.
const TARDY: Duration = Duration::from_secs(16);

pub struct World<'a> {
    site: &'a Site,
    events: VecDeque<(Duration, Event)>,
    /// What has to be put right again, and when.
    repairs: Vec<(Duration, Repair)>,
    /// What jobs wait for: by job id.
    waiting: BTreeMap<String, &'static str>,
    /// Outputs that come by themselves: when, the directory, the job.
    outputs: Vec<(Duration, String, String)>,
    seen: usize,
    next_look: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repair {
    ResumeNode,
    Start(Daemon),
    Continue(Daemon),
    Mount,
}

impl<'a> World<'a> {
    pub fn new(site: &'a Site, events: Vec<(Duration, Event)>) -> Self {
        Self {
            site,
            events: events.into(),
            repairs: Vec::new(),
            waiting: BTreeMap::new(),
            outputs: Vec::new(),
            seen: 0,
            next_look: Duration::ZERO,
        }
    }

    /// Goes on until it is told to stop. Once `quiet`, nothing new happens and all is put right.
    pub fn turn(mut self, quiet: &AtomicBool, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let is_quiet = quiet.load(Ordering::Relaxed);
            let now = self.site.elapsed();
            if is_quiet {
                self.events.clear();
            }
            while self.events.front().is_some_and(|(at, _)| *at <= now) {
                if let Some((_, event)) = self.events.pop_front() {
                    self.happen(event);
                }
            }
            let is_due = |(at, _): &(Duration, Repair)| is_quiet || *at <= now;
            let (due, later) = self.repairs.drain(..).partition(is_due);
            self.repairs = later;
            let due: Vec<_> = due;
            for (_, repair) in due {
                if !self.repair(repair) {
                    self.repairs.push((now + Duration::from_secs(1), repair));
                }
            }
            self.serve_jobs();
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn happen(&mut self, event: Event) {
        let site = self.site;
        let mut later =
            |after: Duration, repair| self.repairs.push((site.elapsed() + after, repair));
        match event {
            Event::Subject(_) | Event::Session(_) if !site.study.at("dicom").exists() => {
                let at = site.elapsed() + Duration::from_secs(1);
                let place = self
                    .events
                    .iter()
                    .position(|(other, _)| *other > at)
                    .unwrap_or(self.events.len());
                self.events.insert(place, (at, event));
            }
            Event::Subject(sessions) => {
                let subject = {
                    let mut diary = site.diary();
                    let subject = format!("sub-{:04}", diary.subjects.len() + 1);
                    diary.subjects.push((subject.clone(), sessions));
                    subject
                };
                for session in 1..=sessions {
                    self.arrive(&subject, session);
                }
            }
            Event::Session(which) => {
                let (subject, session) = {
                    let mut diary = site.diary();
                    let index = usize::try_from(which).unwrap() % diary.subjects.len();
                    let subject = &mut diary.subjects[index];
                    subject.1 += 1;
                    subject.clone()
                };
                self.arrive(&subject, session);
            }
            Event::Scancel { by_root, which } => self.scancel_one(by_root, which),
            Event::Requeue(which) => self.requeue_one(which),
            Event::Drain(time) => self.set_node("drain", "drains", Repair::ResumeNode, time),
            Event::Down(time) => {
                site.diary().acts.push(Act::NodeDown);
                self.set_node("down", "downs", Repair::ResumeNode, time);
            }
            Event::Restart(daemon) => {
                if daemon == Daemon::Controller {
                    site.diary().acts.push(Act::ControllerRestart);
                }
                site.note("daemon restarts", daemon.name());
                later(Duration::ZERO, Repair::Start(daemon));
            }
            Event::Kill(daemon, time) => {
                site.note("daemon kills", &format!("{} {time:?}", daemon.name()));
                site.signal(daemon, "KILL");
                later(time, Repair::Start(daemon));
            }
            Event::Freeze(daemon, time) => {
                site.note("daemon freezes", &format!("{} {time:?}", daemon.name()));
                site.signal(daemon, "STOP");
                later(time, Repair::Continue(daemon));
            }
            Event::Unmount(time) => {
                if fs::rename(site.study.at("dicom"), site.study.at("dicom.away")).is_ok() {
                    site.note("unmounts", &format!("{time:?}"));
                    later(time, Repair::Mount);
                }
            }
        }
    }

    fn arrive(&self, subject: &str, session: u64) {
        self.site
            .note("sessions", &format!("{subject} ses-{session}"));
        self.site.study.scan(&[&format!("{subject}/ses-{session}")]);
    }

    /// Returns whether it is done.
    fn repair(&self, repair: Repair) -> bool {
        let site = self.site;
        match repair {
            Repair::ResumeNode => {
                let node = format!("nodename={}", site.cluster.node());
                let said = site.slurm(true, &["scontrol", "update", &node, "state=resume"]);
                let state = site
                    .slurm(true, &["sinfo", "-h", "-o", "%T"])
                    .unwrap_or("down".to_owned());
                site.note("node resumes", &format!("{said:?} {}", state.trim()));
                !["down", "drain", "unk"]
                    .iter()
                    .any(|word| state.contains(word))
            }
            // It is tried again if the machine is too busy.
            Repair::Start(daemon) => {
                std::panic::catch_unwind(|| site.cluster.restart(daemon.name())).is_ok()
            }
            Repair::Continue(daemon) => {
                site.signal(daemon, "CONT");
                true
            }
            Repair::Mount => {
                fs::rename(site.study.at("dicom.away"), site.study.at("dicom")).is_ok()
            }
        }
    }

    fn set_node(&mut self, state: &str, what: &str, repair: Repair, time: Duration) {
        let node = format!("nodename={}", self.site.cluster.node());
        let state = format!("state={state}");
        let said = self
            .site
            .slurm(true, &["scontrol", "update", &node, &state, "reason=soak"]);
        self.site
            .note(&format!("node {what}"), &format!("{time:?} {said:?}"));
        self.repairs.push((self.site.elapsed() + time, repair));
    }

    /// Ids of the study's living jobs, array tasks one by one.
    fn queue(&self, states: &str, format: &str) -> Vec<String> {
        let user = &self.site.cluster.user;
        let words = [
            "squeue", "-h", "-r", "-u", user, "-t", states, "-S", "i", "-o", format,
        ];
        let text = self.site.slurm(true, &words).unwrap_or_default();
        text.lines().map(|line| line.trim().to_owned()).collect()
    }

    fn scancel_one(&self, by_root: bool, which: u64) {
        let jobs = self.queue("R,PD", "%i");
        if !jobs.is_empty() {
            let job = &jobs[usize::try_from(which).unwrap() % jobs.len()];
            self.scancel(by_root, job);
        }
    }

    fn scancel(&self, by_root: bool, job: &str) -> bool {
        let uid = if by_root { 0 } else { self.site.uid };
        // It may work although it says that it did not.
        self.site
            .diary()
            .acts
            .push(Act::Scancel(job.to_owned(), uid));
        let said = self.site.slurm(by_root, &["scancel", job]);
        let who = if by_root {
            "scancels by root"
        } else {
            "scancels by the user"
        };
        self.site.note(who, &format!("{job} {said:?}"));
        said.is_ok()
    }

    fn requeue_one(&self, which: u64) {
        let jobs = self.queue("R", "%i %j");
        let jobs: Vec<&String> = jobs
            .iter()
            .filter(|line| line.contains(" group_"))
            .collect();
        if !jobs.is_empty() {
            let line = jobs[usize::try_from(which).unwrap() % jobs.len()];
            let job = line.split(' ').next().unwrap();
            let said = self.site.slurm(true, &["scontrol", "requeue", job]);
            self.site.note("requeues", &format!("{job} {said:?}"));
            let requeue = Act::Requeue(job.to_string());
            self.site.diary().acts.push(requeue);
        }
    }

    /// Does for the jobs what their fates ask others for.
    fn serve_jobs(&mut self) {
        let now = self.site.elapsed();
        let log = job_log(&self.site.study);
        for line in &log[self.seen.min(log.len())..] {
            let job = line.job.clone();
            match (line.mark, line.note.as_str()) {
                (Mark::Start, "timeout") => drop(self.waiting.insert(job, "timeout")),
                (Mark::Start, "user") => drop(self.waiting.insert(job, "user")),
                (Mark::Start, "root") => drop(self.waiting.insert(job, "root")),
                (Mark::End, "late") => self.outputs.push((now + LATE, line.output_dir(), job)),
                (Mark::End, "tardy") => self.outputs.push((now + TARDY, line.output_dir(), job)),
                _ => {}
            }
        }
        self.seen = log.len();
        let (due, later): (Vec<_>, Vec<_>) =
            self.outputs.drain(..).partition(|(at, _, _)| *at <= now);
        self.outputs = later;
        for (_, directory, job) in due {
            // As the user: other sessions' jobs write into the same directory.
            let directory = self.site.study.at("derivatives").join(directory);
            let directory = directory.to_string_lossy();
            let body = "mkdir -p \"$0\" && echo \"$1\" > \"$0/done\"";
            let said = self
                .site
                .slurm(false, &["sh", "-c", body, &directory, &job]);
            self.site
                .note("outputs that came late", &format!("{directory} {said:?}"));
        }
        if now >= self.next_look {
            self.next_look = now + Duration::from_secs(3);
            self.serve_waiting();
        }
    }

    fn serve_waiting(&mut self) {
        let running: BTreeSet<String> = match self.site.slurm(
            true,
            &["squeue", "-h", "-r", "-t", "R,CG,PD", "-o", "%i %T %r"],
        ) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(_) => return,
        };
        let is_living = |job: &String| {
            running
                .iter()
                .any(|line| line.split(' ').next() == Some(job))
        };
        self.waiting.retain(|job, _| is_living(job));
        for (job, what) in self.waiting.clone() {
            let is_running = running
                .iter()
                .any(|line| line.starts_with(&format!("{job} RUNNING ")));
            match what {
                _ if !is_running => {}
                "timeout" => {
                    let said = self.site.slurm(
                        true,
                        &["scontrol", "update", &format!("jobid={job}"), "EndTime=now"],
                    );
                    self.site.note("time limits", &format!("{job} {said:?}"));
                    if said.is_ok() {
                        self.waiting.remove(&job);
                    }
                }
                by => drop(self.scancel(by == "root", &job)),
            }
        }
        // A requeued job waits for two minutes by itself, one that could not start for ever.
        for line in &running {
            let Some((job, state)) = line.split_once(' ') else {
                continue;
            };
            if state == "PENDING BeginTime" {
                let _ = self.site.slurm(
                    true,
                    &[
                        "scontrol",
                        "update",
                        &format!("jobid={job}"),
                        "StartTime=now",
                    ],
                );
            } else if state.starts_with("PENDING launch failed requeued held")
                || state == "PENDING JobHeldAdmin"
            {
                let _ = self.site.slurm(true, &["scontrol", "release", job]);
            }
        }
    }
}
