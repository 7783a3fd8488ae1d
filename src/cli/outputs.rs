//! `outputs`: the outputs of complete tasks, for rsync, tar or DataLad, including link targets. Writes nothing, and lists no
//! paths outside the data roots.
//!
//! Checks all paths before it prints the first, so that it never prints part of a wrong list.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use itertools::Itertools as _;
use walkdir::WalkDir;

use super::args::{ListFormat, OutputRoot, OutputsArgs};
use super::status::{unreadable, warn_unreadable};
use super::{Config, Context, Exit, Failure, Printer, Result, TaskRow, TaskState, few};
use crate::base::parallel;
use crate::base::regular::FileError;
use crate::config::paths::absolute;
use crate::decide::manifest::Planned;
use crate::gather::disk::reader::Reader;
use crate::gather::disk::{Dir, SharedListings};
use crate::model::procedure::{Check, Procedure};
use crate::show::tables;

/// A path of a task's outputs.
type Listed<'a> = (&'a Planned, PathBuf);

pub(super) fn run(context: &Context, args: &OutputsArgs, printer: &mut Printer) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    let (found, manifest, _) = context.decide(selection, true, printer)?;
    context.refuse_no_task(&found, &args.select)?;
    let is_complete = |task: &&Planned| TaskState::of(&task.decision) == TaskState::Complete;
    let tasks: Vec<&Planned> = manifest.tasks.iter().filter(is_complete).collect();
    let mut exit = warn_unreadable(unreadable(&manifest), &found, printer);
    let mut listed = Vec::new();
    let outputs = Outputs::new(&context.config);
    let looked = parallel::map(&tasks, context.config.scan_threads, |task| {
        outputs.list(task, args.files)
    });
    for (task, outcome) in tasks.into_iter().zip(looked) {
        match outcome {
            Ok(paths) => listed.extend(paths.into_iter().map(|path| (task, path))),
            Err(error) => {
                printer.warning(&format!("{error}; the outputs of its task are omitted"));
                exit = Exit::Unreadable;
            }
        }
    }
    let base = match (args.root, &args.relative_to) {
        (Some(OutputRoot::Bids), _) => Some(context.config.bids_root.clone()),
        (Some(OutputRoot::Derivatives), _) => Some(context.config.derivatives_root.clone()),
        (None, Some(base)) => {
            let here = std::env::current_dir().unwrap_or_default();
            Some(absolute(&here, base.as_os_str()))
        }
        (None, None) => None,
    };
    if let Some(base) = &base {
        for (task, path) in std::mem::take(&mut listed) {
            match path.strip_prefix(base) {
                Ok(path) => listed.push((task, path.to_owned())),
                // A root selects the paths below it.
                Err(_) if args.root.is_some() => {}
                Err(_) => {
                    return Err(Failure::usage(
                        format!("{} is not below {}", path.display(), base.display()),
                        "use a directory above all outputs, select with --procedure, or use --root bids or --root derivatives",
                    ));
                }
            }
        }
    }
    // Jobs of other tasks may be writing to directories of complete tasks.
    let config = &context.config;
    let state = context.store.read()?;
    let roots = config.output_roots();
    let output = |id, subject: &str, session: &str| {
        roots.output(config.procedures.get(id), subject, session)
    };
    let tasks = listed.iter().map(|(task, _)| task);
    let places: HashSet<PathBuf> = tasks
        .map(|it| output(it.procedure, it.subject.as_str(), it.session.as_str()))
        .collect();
    let is_writer = |row: &&TaskRow| {
        let id = config.procedures.find(&row.key.procedure);
        let place = id.map(|id| output(id, &row.key.subject, &row.key.session));
        row.is_in_flight() && place.is_some_and(|place| places.contains(&place))
    };
    let writers = state.rows().iter().filter(is_writer);
    let writers: Vec<String> = writers.map(|row| row.key.to_string()).collect();
    if !writers.is_empty() {
        printer.warning(&format!(
            "jobs in flight may be writing to listed directories: {}",
            few(&writers, 1)
        ));
    }
    let mut bytes = Vec::new();
    match args.format {
        ListFormat::Lines => {
            let end = if args.null { b'\0' } else { b'\n' };
            for path in distinct(&listed) {
                let path = path.as_os_str().as_bytes();
                if !args.null && path.contains(&b'\n') {
                    return Err(unprintable(path, "contains a line break"));
                }
                bytes.extend_from_slice(path);
                bytes.push(end);
            }
        }
        ListFormat::Json | ListFormat::Csv => {
            for (_, path) in &listed {
                let path = path.as_os_str().as_bytes();
                std::str::from_utf8(path).map_err(|_| unprintable(path, "is not UTF-8"))?;
            }
            let frame = tables::outputs(&listed, &context.config.procedures)?;
            bytes = match args.format {
                ListFormat::Json => tables::to_json(&frame)?,
                _ => tables::to_csv(&frame)?,
            };
        }
    }
    printer.data(&bytes);
    if listed.is_empty() {
        printer.note("no selected task is complete; see `snbb-scheduler session-status`");
    }
    Ok(exit)
}

/// Omits repeated paths and those below another listed one.
fn distinct<'a>(listed: &'a [Listed<'_>]) -> Vec<&'a Path> {
    let paths = || listed.iter().map(|(_, path)| path.as_path());
    let all: HashSet<&Path> = paths().collect();
    let is_below = |path: &Path| path.ancestors().skip(1).any(|above| all.contains(above));
    paths().unique().filter(|path| !is_below(path)).collect()
}

fn unprintable(path: &[u8], what: &str) -> Failure {
    Failure::usage(
        format!(
            "a name {what}: '{}'; nothing was listed",
            path.escape_ascii()
        ),
        "use `--null` to list any name (rsync --from0, tar --null, xargs -0)",
    )
}

/// Lists the outputs of tasks. Shared by all threads.
struct Outputs<'a> {
    config: &'a Config,
    reader: Reader,
    shared: SharedListings,
    /// The data roots as configured, and their canonical paths.
    roots: Vec<(&'a Path, PathBuf)>,
}

impl<'a> Outputs<'a> {
    fn new(config: &'a Config) -> Self {
        let roots = [&config.derivatives_root, &config.bids_root];
        let real = |root: &'a PathBuf| Some((root.as_path(), root.canonicalize().ok()?));
        Self {
            config,
            reader: Reader::default().with_annex(config.annex),
            shared: SharedListings::default(),
            roots: roots.into_iter().filter_map(real).collect(),
        }
    }

    /// The existing output directories (or single files) of a task, or with `files` the files and links in them.
    /// Includes link targets below the data roots.
    fn list(&self, task: &Planned, files: bool) -> Result<BTreeSet<PathBuf>, FileError> {
        let procedure = self.config.procedures.get(task.procedure);
        let mut found = BTreeSet::new();
        for place in self.places(procedure, task)? {
            self.add(place, files, &mut found)?;
        }
        Ok(found)
    }

    /// The task's directory, and entries with its name next to it: reports, and FreeSurfer's run of each session
    /// (`<sub>_<ses>`, `<sub>_<ses>.long.<sub>`). QSIRecon has a separate dataset for each workflow.
    fn places(&self, procedure: &Procedure, task: &Planned) -> Result<Vec<PathBuf>, FileError> {
        let (subject, session) = (task.subject.as_str(), task.session.as_str());
        let roots = self.config.output_roots();
        let top = roots.top(procedure);
        let mut places = vec![roots.output(procedure, subject, session)];
        // FreeSurfer's check covers the whole subject.
        let name = match procedure.check {
            _ if session.is_empty() => subject.to_owned(),
            Check::Freesurfer => subject.to_owned(),
            Check::Markers | Check::Qsirecon => format!("{subject}_{session}"),
        };
        let mut datasets = vec![top.clone()];
        if procedure.check == Check::Qsirecon {
            let derivatives = top.join("derivatives");
            for dataset in self.names(&derivatives, |name| !name.starts_with(b"."))? {
                let own: PathBuf = dataset.join(subject).join(session).components().collect();
                places.push(own);
                datasets.push(dataset);
            }
        }
        for dataset in datasets {
            // A procedure of session scope may write one report for the whole subject.
            let report = format!("{subject}.");
            let is_beside = |found: &[u8]| {
                found.starts_with(report.as_bytes())
                    || found
                        .strip_prefix(name.as_bytes())
                        .is_some_and(|rest| rest.first().is_none_or(|b| b"._".contains(b)))
            };
            places.extend(self.names(&dataset, is_beside)?);
            if !session.is_empty() {
                places.extend(self.names(&dataset.join(subject), is_beside)?);
            }
        }
        places.retain(|place| place.symlink_metadata().is_ok());
        Ok(places)
    }

    /// The paths of a directory's entries whose names match.
    fn names(
        &self,
        directory: &Path,
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<PathBuf>, FileError> {
        match &*self.shared.get(&self.reader, directory) {
            Dir::There(listing) => Ok(listing
                .iter()
                .filter(|entry| is_wanted(entry.name.as_encoded_bytes()))
                .map(|entry| directory.join(entry.name))
                .collect()),
            Dir::Absent => Ok(Vec::new()),
            Dir::Failed(what) => {
                let error = io::Error::other(what.error.clone());
                Err(FileError::of("read", &what.path)(error))
            }
        }
    }

    fn add(
        &self,
        place: PathBuf,
        files: bool,
        found: &mut BTreeSet<PathBuf>,
    ) -> Result<(), FileError> {
        if found.contains(&place) {
            return Ok(());
        }
        if let Some(target) = self.target(&place) {
            found.insert(place);
            return self.add(target, files, found);
        }
        if !files {
            found.insert(place);
            return Ok(());
        }
        let walk = WalkDir::new(&place)
            .follow_links(false)
            .follow_root_links(true);
        let mut targets = Vec::new();
        for entry in walk {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(&place).to_owned();
                FileError::of("read", &path)(error.into())
            })?;
            let kind = entry.file_type();
            if kind.is_symlink() {
                targets.extend(self.target(entry.path()));
            }
            if kind.is_file() || kind.is_symlink() {
                found.insert(entry.into_path());
            }
        }
        // A link to a parent directory would add everything.
        targets.retain(|target| !place.starts_with(target));
        targets
            .into_iter()
            .try_for_each(|target| self.add(target, files, found))
    }

    /// The target of a link, if it is below a data root.
    fn target(&self, path: &Path) -> Option<PathBuf> {
        let is_link = path.symlink_metadata().is_ok_and(|it| it.is_symlink());
        let target = is_link.then(|| path.canonicalize().ok())??;
        self.roots
            .iter()
            .find_map(|(root, real)| Some(root.join(target.strip_prefix(real).ok()?)))
    }
}
