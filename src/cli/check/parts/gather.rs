//! What each part of a check that looks at file systems gathers, and which judge gets it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::sys;
use crate::cli::check::parts::{Site, StateLook};
use crate::decide::safety;
use crate::decide::safety::space;
use crate::gather::sessions::discover::{DiscoverError, Discovery};
use crate::gather::sessions::lists;
use crate::model::bids::{Dicom, SessionLabel, SessionSource, SubjectLabel};
use crate::model::config::Config;
use crate::model::state::TaskKey;
use crate::setup::catalogue;
use crate::setup::check::{
    Finding, look, mounts, news, outputs, places, roots, scripts, sessions, trial,
};
use crate::store::state_file::Store;

/// For a mail server's answer.
const MAIL_LIMIT: Duration = Duration::from_secs(5);
/// Of a sessions file, so many paths are looked at.
const DICOM_SAMPLE: usize = 200;

pub(crate) fn root(site: &Site, key: &'static str, state: Option<&StateLook>) -> Vec<Finding> {
    let config = &site.config;
    let procedures = || config.procedures.iter().map(|(_, procedure)| procedure);
    let dirs = |is_below_bids: bool| {
        procedures()
            .filter(|procedure| procedure.is_below_bids() == is_below_bids)
            .map(|procedure| procedure.output_dir.as_path())
            .collect()
    };
    let (path, is_source, dirs): (&Path, bool, Vec<&Path>) = match key {
        "dicom_root" => (
            &config.dicom_root,
            config.sessions == SessionSource::Dicom,
            Vec::new(),
        ),
        "bids_root" => (
            &config.bids_root,
            config.sessions == SessionSource::Bids,
            dirs(true),
        ),
        _ => (&config.derivatives_root, false, dirs(false)),
    };
    let stop = state.and_then(|look| {
        let stops = safety::roots::judge(config, &look.state, safety::roots::look);
        stops
            .into_iter()
            .find(|stop| stop.name == format!("root/{key}"))
    });
    let mut findings = roots::judge(&roots::Root {
        key,
        path,
        is_source,
        takes_outputs: !dirs.is_empty(),
        look: look::root(path),
        unwritable: look::unwritable(path, &dirs),
        stop: stop.map(|stop| (stop.message, stop.hint)),
    });
    // An empty one is still to be filled: by a converter that writes the description.
    if key == "bids_root" && look::root(path) == roots::Look::There {
        let needing: Vec<String> = procedures()
            .filter(|procedure| {
                let app = catalogue::app(&procedure.name);
                app.is_some_and(|app| app.needs_description())
            })
            .map(|procedure| procedure.name.to_string())
            .collect();
        // A link whose content is not here (git-annex) is enough.
        let description = path.join(catalogue::DESCRIPTION).symlink_metadata();
        if !needing.is_empty() && description.is_err() {
            findings.push(roots::no_description(path, &needing));
        }
    }
    findings.extend(file_system(site, key, mounts::Use::Data, path));
    findings
}

/// Judges the file system that a path lies on, or will lie on.
fn file_system(
    site: &Site,
    topic: &'static str,
    purpose: mounts::Use,
    path: &Path,
) -> Vec<Finding> {
    let mounts = mounts::parse(&look::mounts(site.mountinfo.as_deref()));
    match mounts::of(&mounts, &look::existing(path)) {
        Some(mount) => mounts::judge(topic, purpose, path, mount, site.is_slurm()),
        None => Vec::new(),
    }
}

pub(crate) fn scripts(site: &Site) -> Vec<Finding> {
    let config = &site.config;
    let path = sys::env("PATH");
    let cron = OsString::from(crate::setup::check::cron::PATH);
    let mut findings = Vec::new();
    for (_, procedure) in config.procedures.iter() {
        let place = site.find_script(&procedure.script, path.as_ref());
        let mut facts = scripts::Facts {
            procedure: &procedure.name,
            by_path_only: place.is_ok()
                && site.find_script(&procedure.script, Some(&cron)).is_err(),
            place: place.map_err(|error| (error.to_string(), error.hint().unwrap_or_default())),
            text: None,
            byte_order_mark: false,
            mode: None,
            missing_interpreter: None,
            helpers: Vec::new(),
            is_wheel: look::is_wheel(),
            missing: Vec::new(),
            executor: config.executor,
            resources: &procedure.resources,
            has_log_dir: config.slurm.log_dir.is_some(),
            array: procedure.rules.array,
        };
        let seen = |name: &str| {
            let of_caller = || Some(sys::env(name)?.to_string_lossy().into_owned());
            procedure.env.get(name).cloned().or_else(of_caller)
        };
        look::script(&mut facts, path.as_deref(), &seen);
        findings.extend(scripts::judge(&facts));
    }
    findings
}

/// Looks at the directories that the program writes to, and tries them.
pub(crate) fn own_places(site: &Site) -> Vec<Finding> {
    let config = &site.config;
    let data: Vec<(&'static str, PathBuf)> = [
        ("dicom_root", &config.dicom_root),
        ("bids_root", &config.bids_root),
        ("derivatives_root", &config.derivatives_root),
    ]
    .map(|(key, root)| (key, look::resolved(root)))
    .to_vec();
    let parent = |file: &Path| file.parent().unwrap_or(Path::new("/")).to_owned();
    // Links of the file itself are followed, as for the state.
    let state_file = Store::at(&config.state_file)
        .map_or_else(|_| config.state_file.clone(), |store| store.paths.state);
    let state_dir = parent(&state_file);
    let log_file_dir = parent(&config.log_file);
    let mut dirs = vec![("state_file", state_dir.clone(), mounts::Use::State)];
    if log_file_dir != state_dir {
        dirs.push(("log_file", log_file_dir, mounts::Use::Log));
    }
    if let Some(dir) = &config.slurm.log_dir {
        dirs.push(("log_dir", dir.clone(), mounts::Use::Log));
    }
    let mut findings = Vec::new();
    for (topic, dir, purpose) in &dirs {
        let (topic, purpose) = (*topic, *purpose);
        let seen = look::place(dir);
        let can_be_tried = matches!(
            seen,
            places::Look::Writable | places::Look::Missing { in_writable: true }
        );
        findings.extend(places::judge(
            &places::Place {
                topic,
                key: if topic == "log_dir" {
                    "slurm_log_dir"
                } else {
                    topic
                },
                dir,
                look: seen,
                mode: look::mode(dir),
                below: places::root_above(&look::resolved(dir), &data)
                    .or_else(|| look::root_behind(dir, &data)),
            },
            true,
        ));
        findings.extend(file_system(site, topic, purpose, dir));
        if purpose == mounts::Use::State && can_be_tried {
            let trial = trial::run(&look::existing(dir));
            findings.extend(trial::judge("lock", &trial));
            findings.extend(
                trial
                    .written
                    .map(|written| trial::judge_clock(&trial.dir, &written)),
            );
        }
    }
    if config.slurm.log_dir.is_none() && site.is_slurm() {
        findings.push(Finding::warning(
            "log_dir",
            "",
            "there is no slurm_log_dir: jobs write to the directory that the call was made in, and `logs` finds nothing",
            "set slurm_log_dir to a directory that all nodes see",
        ));
    }
    if let Some(dir) = &config.slurm.log_dir {
        let room = space::of_directory(dir);
        findings.extend(places::judge_log_room(dir, room, config.safety.min_free));
    }
    let rooms = space::look(config);
    let free = rooms[0].and_then(|room| room.free);
    let stops = space::judge(config, &rooms);
    findings.extend(places::judge_room(
        &stops,
        free,
        config.safety.min_free,
        &state_file,
    ));
    findings
}

pub(crate) fn who_is_told(site: &Site) -> Vec<Finding> {
    let config = &site.config;
    let audit = &config.audit;
    let parent = |file: &PathBuf| file.parent().unwrap_or(Path::new("/")).to_owned();
    let dirs = [
        ("heartbeat_file", config.heartbeat_file.as_ref().map(parent)),
        ("metrics_file", config.metrics_file.as_ref().map(parent)),
        ("audit.report_dir", audit.report_dir.clone()),
    ];
    let is_mail_sound = news::sends_mail(config) && crate::show::mail::check(audit).is_ok();
    let facts = news::Facts {
        unreachable: match is_mail_sound {
            true => look::reach(&audit.smtp_host, audit.smtp_port, MAIL_LIMIT).err(),
            false => None,
        },
        command: config
            .notify
            .command
            .as_ref()
            .map(|path| (path.clone(), look::program(path))),
        dirs: dirs
            .into_iter()
            .filter_map(|(key, dir)| {
                let dir = dir?;
                let seen = look::place(&dir);
                Some((key, dir, seen))
            })
            .collect(),
        password_mode: config
            .file
            .as_deref()
            .filter(|_| audit.smtp_password.is_some() && has_written_password(config))
            .and_then(look::mode),
    };
    news::judge(config, &facts)
}

/// True if the password stands in the file itself: with a variable's name instead, the file may be read.
fn has_written_password(config: &Config) -> bool {
    let text = config
        .file
        .as_deref()
        .and_then(|file| std::fs::read_to_string(file).ok());
    text.is_some_and(|text| {
        text.lines().any(|line| {
            let line = line.split('#').next().unwrap_or_default();
            line.split_once("smtp_password")
                .is_some_and(|(_, rest)| rest.trim_start().starts_with(':'))
        })
    })
}

pub(crate) fn of_all_sessions(
    site: &Site,
    discovery: &Result<Discovery, DiscoverError>,
) -> Vec<Finding> {
    let config = &site.config;
    let (place, root) = match &config.sessions {
        SessionSource::Dicom => (&config.dicom_root, Some(&config.dicom_root)),
        SessionSource::Bids => (&config.bids_root, Some(&config.bids_root)),
        SessionSource::Csv { file, .. } => (file, None),
    };
    let found = discovery.as_ref().ok();
    let near = found.into_iter().flat_map(|found| &found.near);
    let near = near.map(|(name, meant)| (place.join(name), meant.clone()));
    let near = near.collect();
    let dicom = match (root, found) {
        (None, Some(found)) => {
            let paths: Vec<&Path> = found
                .sessions
                .iter()
                .filter_map(|session| match &session.dicom {
                    Dicom::At(path) => Some(&**path),
                    Dicom::Missing | Dicom::NotNeeded => None,
                })
                .collect();
            let chosen: Vec<&&Path> = look::sample(&paths, DICOM_SAMPLE).collect();
            let missing = chosen.iter().filter(|path| path.metadata().is_err());
            let missing = missing.map(|path| (**path).to_owned()).collect();
            Some((chosen.len(), missing))
        }
        _ => None,
    };
    let cohort = lists::load(&config.cohort);
    let unmatched = match (&cohort, found) {
        // What could not be read may hold their sessions.
        (Ok(cohort), Some(found)) if found.unreadable.is_empty() && !found.sessions.is_empty() => {
            let entries = cohort.unmatched(&found.sessions);
            entries.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    sessions::judge(&sessions::Facts {
        place: place.display().to_string(),
        found: discovery
            .as_ref()
            .map_err(|error| (error.to_string(), error.hint())),
        near,
        dicom,
        unmatched,
        cohort: cohort.err().map(|error| (error.to_string(), error.hint())),
    })
}

pub(crate) fn markers(
    site: &Site,
    discovery: &Result<Discovery, DiscoverError>,
    state: Option<&StateLook>,
) -> Vec<Finding> {
    let Ok(found) = discovery else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    if let Err(error) = crate::gather::completion::probe::Probe::new(&site.config) {
        findings.push(Finding::error(
            "markers",
            "qsirecon",
            error.to_string(),
            error.hint(),
        ));
    }
    let busy: HashSet<&TaskKey> = state
        .iter()
        .flat_map(|look| look.state.rows())
        .filter(|row| row.is_in_flight())
        .map(|row| &row.key)
        .collect();
    for (_, procedure) in site.config.procedures.iter() {
        let is_busy = |subject: &SubjectLabel, session: &SessionLabel| {
            busy.contains(&TaskKey::new(
                subject.as_str(),
                session.as_str(),
                &procedure.name,
            ))
        };
        let facts = look::outputs(&site.reader, &site.config, procedure, found, &is_busy);
        findings.extend(facts.as_ref().and_then(outputs::judge));
    }
    findings
}
