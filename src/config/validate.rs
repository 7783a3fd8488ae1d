//! Checks the consistency of procedures, of paths and of files: all are regular files, and no two keys name the same file
//! if the program writes to it.
//!
//! Compares device and inode, because links and mounts give one file several names. Files that do not exist yet are
//! compared by path.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::problem::{did_you_mean, quote};
use super::reader::Fields;
use super::steps::Step;
use crate::base::regular::{self, resolved};
use crate::model::bids::SessionSource;
use crate::model::bids::cohort::ListSource;
use crate::model::config::Config;
use crate::model::procedure::marker::Required;
use crate::model::procedure::{Check, DagError, Procedure, ProcedureDag, ProcedureId, Scope};
use crate::store::state_file::{StateError, StatePaths, resolve};

/// Builds the pipeline. Returns `None` after reporting why that is impossible.
pub(super) fn pipeline(steps: Vec<Step<'_>>) -> Option<ProcedureDag> {
    let procedures = steps.iter().map(|step| step.procedure.clone()).collect();
    match ProcedureDag::new(procedures) {
        Ok(dag) => {
            warn_of_shared_outputs(&steps, &dag);
            Some(dag)
        }
        Err(errors) => {
            for error in &errors {
                report(error, &steps);
            }
            None
        }
    }
}

fn report(error: &DagError, steps: &[Step<'_>]) -> Option<()> {
    match error {
        DagError::DuplicateName { at, first } => {
            let step = steps.get(*at)?;
            let name = quote(&step.procedure.name);
            let line = steps.get(*first)?.entry.at.line;
            let message = format!("{name} is already used in line {line}");
            step.entry.problem(message);
        }
        DagError::UnknownDependency { at, dependency } => {
            let step = steps.get(*at)?;
            let place = step.dependencies.get(*dependency)?;
            let missing = &step.procedure.depends_on.get(*dependency)?.procedure;
            let mut names: Vec<&str> = steps.iter().map(|step| &*step.procedure.name).collect();
            names.sort_unstable();
            names.dedup();
            let (quoted, known) = (quote(missing), names.join(", "));
            let message = format!("{quoted} is not a procedure (available: {known})");
            place.problem(message + &did_you_mean(missing, names));
        }
        DagError::Cycle(path) => {
            let names = path.iter().filter_map(|at| steps.get(*at));
            let names: Vec<&str> = names.map(|step| &*step.procedure.name).collect();
            let first = steps.get(*path.first()?)?;
            let mut dependencies = first.procedure.depends_on.iter();
            let next = dependencies.position(|next| names.get(1) == Some(&&*next.procedure))?;
            first.dependencies.get(next)?.problem(format!(
                "dependency cycle: {} (none of these procedures would ever run)",
                names.join(" -> ")
            ));
        }
    }
    Some(())
}

fn warn_of_shared_outputs(steps: &[Step<'_>], dag: &ProcedureDag) {
    for (index, step) in steps.iter().enumerate() {
        let procedure = &step.procedure;
        let is_alike = |other: &&Procedure| {
            other.output_dir == procedure.output_dir
                && other.scope == procedure.scope
                && other.check == procedure.check
                && other.name != procedure.name
        };
        let all = || steps.iter().map(|step| &step.procedure);
        let mut earlier = all().take(index);
        let mut alike = earlier.clone().filter(is_alike);
        let same = alike.find(|other| other.completion == procedure.completion);
        let empty_rule = procedure.check == Check::Markers
            && matches!(procedure.completion.required, Required::NonEmptyDirectory);
        // Procedures that add to the sessions of the dataset itself are expected to write to the same directory.
        let races = |other: &&Procedure| {
            let scopes = (other.scope, procedure.scope);
            other.output_dir == procedure.output_dir
                && (!other.is_below_bids() || scopes == (Scope::Subject, Scope::Subject))
                && !waits_for(dag, other, procedure)
                && !waits_for(dag, procedure, other)
        };
        let warning = if let Some(other) = same {
            let name = quote(&other.name);
            format!(
                "has the same output_dir, scope and markers as {name}: when one is complete, both are"
            )
        } else if empty_rule && let Some(other) = all().find(is_alike) {
            let name = quote(&other.name);
            format!(
                "has no completion_marker and shares its output_dir with {name}: it will count as complete as soon as the \
                 other procedure writes a file"
            )
        } else if let Some(other) = earlier.find(races) {
            let name = quote(&other.name);
            format!(
                "shares its output_dir with {name}, and neither depends on the other: their jobs may write to the same \
                 directory at the same time (add depends_on to prevent this)"
            )
        } else {
            continue;
        };
        step.entry.warn(warning);
    }
}

/// True if a procedure depends on another one, directly or indirectly.
fn waits_for(dag: &ProcedureDag, procedure: &Procedure, other: &Procedure) -> bool {
    let mut seen: Vec<ProcedureId> = Vec::new();
    let mut left = Vec::from_iter(dag.find(&procedure.name));
    while let Some(id) = left.pop() {
        if !seen.contains(&id) {
            seen.push(id);
            left.extend(dag.dependencies(id).iter().map(|(id, _)| *id));
        }
    }
    dag.find(&other.name)
        .is_some_and(|other| seen.contains(&other))
}

/// Checks the data roots and the path of the state file.
pub(super) fn paths(config: &Config, top: &Fields<'_>) {
    let roots = config.roots();
    for (name, root) in roots {
        if root.to_str().is_none() {
            // Jobs get it as an argument or a variable, and would see a different path.
            top.problem(name, format!("{} is not UTF-8", root.display()));
        }
    }
    for (index, (name, root)) in roots.iter().enumerate() {
        let earlier = roots.get(..index).unwrap_or_default();
        for (other, _) in earlier.iter().filter(|(_, path)| path == root) {
            top.warn(name, format!("is the same directory as {other}"));
        }
    }
    if config.state_file.file_name().is_none() {
        top.problem("state_file", "is not the path of a file");
    }
}

const STATE: &str = "state_file";
const LOG: &str = "log_file";

struct StudyFile {
    key: &'static str,
    /// A name for messages.
    name: String,
    path: PathBuf,
    is_written: bool,
}

/// Device and inode of a file, or the path of one that does not exist yet, with links resolved.
type Identity = Result<(u64, u64), PathBuf>;

/// The key and name of the study file at a path, if it is one.
pub fn file_of_study(config: &Config, path: &Path) -> Option<(&'static str, String)> {
    let wanted = identity(&absolute(path));
    let mut files = study_files(config).into_iter();
    let file = files.find(|file| identity(&file.path) == wanted)?;
    Some((file.key, file.name))
}

/// The innermost data root above a path, with existing links resolved.
pub fn root_above<'a>(config: &'a Config, path: &Path) -> Option<(&'static str, &'a Path)> {
    let path = resolved(&absolute(path));
    let roots = config.roots().into_iter();
    roots
        .filter(|(_, root)| path.starts_with(resolved(root)))
        .min_by_key(|(_, root)| Reverse(resolved(root).components().count()))
}

fn absolute(path: &Path) -> PathBuf {
    let working_dir = std::env::current_dir().unwrap_or_else(|_| "/".into());
    working_dir.join(path)
}

/// A description of the subject's data or procedure's outputs that contain a file. Elsewhere below the roots, as in
/// `code/` of a BIDS dataset, state and log are allowed. Reads only the file's own directories, not the roots: a hanging mount must not stop commands that need
/// no data.
fn data_around(config: &Config, file: &Path) -> Option<String> {
    for place in [file.to_owned(), resolved(file)] {
        for (key, root) in config.roots() {
            let below = place.strip_prefix(root).ok();
            let first = below.and_then(|below| below.components().next());
            let name = first.map(|first| first.as_os_str().to_string_lossy());
            if let Some(name) = name.filter(|name| name.starts_with("sub-")) {
                return Some(format!("{name} of {key}"));
            }
        }
        let mut procedures = config.procedures.all();
        let around = procedures.find(|procedure| {
            !procedure.is_below_bids() && place.starts_with(config.output_roots().top(procedure))
        });
        if let Some(procedure) = around {
            return Some(format!("the output_dir of {}", procedure.name));
        }
    }
    None
}

pub(super) fn files(config: &Config, top: &Fields<'_>) {
    for (key, file) in [(STATE, &config.state_file), (LOG, &config.log_file)] {
        if let Some(data) = data_around(config, file) {
            let file = file.display();
            let message = format!(
                "{file} is inside {data}, where only jobs may write: choose a path outside the data"
            );
            top.problem(key, message);
        }
    }
    for (key, file) in reports(config) {
        let places = [file.clone(), resolved(file)];
        let mut roots = config.roots().into_iter();
        if let Some((root, _)) =
            roots.find(|(_, root)| places.iter().any(|it| it.starts_with(root)))
        {
            let remedy = "choose a path outside the data, such as beside the state file";
            top.problem(key, format!("is inside {root} ({remedy})"));
        }
    }
    let mut known: Vec<(StudyFile, Identity)> = Vec::new();
    for file in study_files(config) {
        let (key, path) = (file.key, file.path.display());
        let metadata = file.path.metadata();
        if metadata.is_ok_and(|metadata| !metadata.is_file()) {
            top.problem(key, format!("{path} is not a regular file"));
            continue;
        }
        let is_annexed = matches!(resolve(&file.path), Err(StateError::Annexed { .. }));
        if file.is_written && is_annexed {
            let message = format!(
                "{path} is a git-annex file, which must not be changed: run `git annex unlock` on it and add it to \
                 .gitignore"
            );
            top.problem(key, message);
            continue;
        }
        let identity = identity(&file.path);
        // While the state is replaced, and after a crash at that point, the state and its copy are one file.
        let other = known.iter().find(|(other, known)| {
            (other.is_written || file.is_written)
                && (other.key, key) != (STATE, STATE)
                && *known == identity
        });
        if let Some((other, _)) = other {
            let name = match file.name.as_str() {
                name if name == key => String::new(),
                name => format!("{name} "),
            };
            let message = format!("{name}is the same file as {}, {path}", other.name);
            top.problem(key, message);
        }
        known.push((file, identity));
    }
}

fn study_files<'a>(config: &'a Config) -> Vec<StudyFile> {
    let mut files = Vec::new();
    let mut add = |key, name: &str, path: &Path, is_written| {
        files.push(StudyFile {
            key,
            name: name.to_owned(),
            path: path.to_owned(),
            is_written,
        });
    };
    if let Some(file) = &config.file {
        add("configuration", "the configuration", file, false);
    }
    let list = |list: &'a Option<ListSource>| match list {
        Some(ListSource::File(file)) => Some(file),
        _ => None,
    };
    let sessions = match &config.sessions {
        SessionSource::Csv { file, .. } => Some(file),
        _ => None,
    };
    for (key, file) in [
        ("sessions_file", sessions),
        ("include", list(&config.cohort.include)),
        ("exclude", list(&config.cohort.exclude)),
        ("qsirecon_spec", config.qsirecon_spec.as_ref()),
    ] {
        if let Some(file) = file {
            add(key, key, file, false);
        }
    }
    for procedure in config.procedures.all() {
        for dir in config.script_dirs() {
            let script = dir.join(&procedure.script);
            if script.metadata().is_ok_and(|metadata| metadata.is_file()) {
                let name = format!("the job script of {}", procedure.name);
                add("procedures", &name, &script, false);
            }
        }
    }
    add(STATE, STATE, &config.state_file, true);
    if let Ok(paths) = StatePaths::of(&config.state_file) {
        for path in paths.beside() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            add(STATE, &format!("{name} (of the state)"), path, true);
        }
    }
    add(LOG, LOG, &config.log_file, true);
    for (key, file) in reports(config) {
        add(key, key, file, true);
    }
    files
}

/// The files that monitoring programs read.
fn reports(config: &Config) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    let files = [
        ("heartbeat_file", &config.heartbeat_file),
        ("metrics_file", &config.metrics_file),
    ];
    let files = files.into_iter();
    files.filter_map(|(key, file)| Some((key, file.as_ref()?)))
}

fn identity(path: &Path) -> Identity {
    match path.metadata() {
        Ok(metadata) => Ok(regular::identity(&metadata)),
        Err(_) => Err(resolved(&resolve(path).unwrap_or_else(|_| path.to_owned()))),
    }
}
