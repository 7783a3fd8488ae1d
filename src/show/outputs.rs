//! The output directories and files of tasks, including link targets. Paths outside the data roots are not listed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::base::regular::FileError;
use crate::decide::manifest::Planned;
use crate::gather::disk::reader::Reader;
use crate::gather::disk::{Dir, SharedListings};
use crate::model::config::Config;
use crate::model::procedure::{Check, Procedure};

/// Lists the outputs of tasks. Shared by all threads.
pub struct Outputs<'a> {
    config: &'a Config,
    reader: Reader,
    shared: SharedListings,
    /// The data roots as configured, and their canonical paths.
    roots: Vec<(&'a Path, PathBuf)>,
}

impl<'a> Outputs<'a> {
    pub fn new(config: &'a Config) -> Self {
        let roots = [&config.derivatives_root, &config.bids_root];
        Self {
            config,
            reader: Reader::default().with_annex(config.annex),
            shared: SharedListings::default(),
            roots: roots
                .into_iter()
                .filter_map(|root| Some((root.as_path(), root.canonicalize().ok()?)))
                .collect(),
        }
    }

    /// The existing output directories (or single files) of a task, or with `files` the files and links in them.
    /// Includes link targets below the data roots.
    pub fn list(&self, task: &Planned, files: bool) -> Result<BTreeSet<PathBuf>, FileError> {
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
