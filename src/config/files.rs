//! Files that keys name: each is a regular file, and no file that the program writes is another file of the study.
//!
//! Looks at the files themselves, since links and mounts give one file several names. What is not there yet is
//! compared by its path.

use std::cmp::Reverse;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::reader::{Context, Fields};
use super::validate;
use crate::base::regular::resolved;
use crate::model::bids::SessionSource;
use crate::model::bids::cohort::ListSource;
use crate::model::config::Config;
use crate::store::state_file::{StateError, StatePaths, resolve};

const STATE: &str = "state_file";
const LOG: &str = "log_file";

/// A file of the study.
struct Named {
    key: &'static str,
    /// What it is, for messages.
    what: String,
    path: PathBuf,
    is_written: bool,
    identity: Identity,
}

/// Tells files apart.
#[derive(PartialEq, Eq)]
enum Identity {
    /// Device and inode.
    There(u64, u64),
    /// No such file yet: its path, links of its directory followed.
    At(PathBuf),
}

/// Says which file of the study a path leads to, and the key that names it.
pub fn file_of_study(config: &Config, path: &Path) -> Option<(&'static str, String)> {
    let (wanted, _) = look(&absolute(path));
    let mut found = None;
    each(config, &mut |key, what, path, _| {
        if found.is_none() && look(path).0 == wanted {
            found = Some((key, what.to_owned()));
        }
    });
    found
}

/// Returns the innermost data root that a path lies below, links followed as far as there is something.
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

/// Returns the key of the root that a file lies below. Looks at the file's own directories only, not at the roots: a
/// mount that hangs must not stop commands that need no data.
pub(super) fn root_of(config: &Config, file: &Path) -> Option<&'static str> {
    let places = [file.to_owned(), resolved(file)];
    let mut roots = config.roots().into_iter();
    roots
        .find(|(_, root)| places.iter().any(|place| place.starts_with(root)))
        .map(|(key, _)| key)
}

/// Says in whose data a file would lie: a subject's, or a procedure's outputs. Beside them, as in `code/` of a BIDS
/// dataset, the state and the log may lie. Looks no further than [`root_of`].
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
        let mut procedures = config.procedures.iter().map(|(_, procedure)| procedure);
        let around = procedures.find(|procedure| {
            !procedure.is_below_bids() && place.starts_with(config.output_roots().top(procedure))
        });
        if let Some(procedure) = around {
            return Some(format!("the output_dir of {}", procedure.name));
        }
    }
    None
}

pub(super) fn check(config: &Config, fields: &Fields<'_>, context: &Context<'_>) {
    for (key, file) in [(STATE, &config.state_file), (LOG, &config.log_file)] {
        if let Some(data) = data_around(config, file) {
            let file = file.display();
            let message = format!(
                "{file} lies in {data}, where only jobs write: name a place outside the data"
            );
            validate::problem(fields, context, key, &message);
        }
    }
    let mut known: Vec<Named> = Vec::new();
    each(config, &mut |key, what, path, is_written| {
        let (identity, metadata) = look(path);
        if let Some(problem) = metadata.and_then(|metadata| unfit(&metadata)) {
            let message = format!("{} is {problem}, not a regular file", path.display());
            return validate::problem(fields, context, key, &message);
        }
        if is_written && matches!(resolve(path), Err(StateError::Annexed { .. })) {
            let message = format!(
                "{} is a file of git-annex, which must not be changed: `git annex unlock` it, and keep it out of the \
                 dataset by .gitignore",
                path.display()
            );
            return validate::problem(fields, context, key, &message);
        }
        let named = Named {
            key,
            what: what.to_owned(),
            path: path.to_owned(),
            is_written,
            identity,
        };
        // The state and its copy are one file for a moment while the state is replaced, and after a crash in it.
        let other = known.iter().find(|other| {
            (other.is_written || is_written)
                && (other.key, key) != (STATE, STATE)
                && other.identity == named.identity
        });
        if let Some(other) = other {
            let what = if what == key {
                String::new()
            } else {
                format!("{what} ")
            };
            let (other, path) = (&other.what, other.path.display());
            let message = format!("{what}is the same file as {other}, {path}");
            validate::problem(fields, context, key, &message);
        }
        known.push(named);
    });
}

/// Shows each file of the study: its key, what it is, its path, and whether the program writes to it.
fn each(config: &Config, add: &mut dyn FnMut(&'static str, &str, &Path, bool)) {
    if let Some(file) = &config.file {
        add("configuration", "the configuration", file, false);
    }
    for (key, file) in read_only(config) {
        add(key, key, file, false);
    }
    for (_, procedure) in config.procedures.iter() {
        for dir in config.script_dirs() {
            let script = dir.join(&procedure.script);
            if script.metadata().is_ok_and(|metadata| metadata.is_file()) {
                add(
                    "procedures",
                    &format!("the script of {}", procedure.name),
                    &script,
                    false,
                );
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
    let rest = [
        ("heartbeat_file", &config.heartbeat_file),
        ("metrics_file", &config.metrics_file),
    ];
    for (key, file) in rest {
        if let Some(file) = file {
            add(key, key, file, true);
        }
    }
}

fn read_only(config: &Config) -> Vec<(&'static str, &Path)> {
    let mut files = Vec::new();
    if let SessionSource::Csv { file, .. } = &config.sessions {
        files.push(("sessions_file", file.as_path()));
    }
    let lists = [
        ("include", &config.cohort.include),
        ("exclude", &config.cohort.exclude),
    ];
    for (key, list) in lists {
        if let Some(ListSource::File(file)) = list {
            files.push((key, file.as_path()));
        }
    }
    files.extend(
        config
            .qsirecon_spec
            .as_deref()
            .map(|file| ("qsirecon_spec", file)),
    );
    files
}

fn look(path: &Path) -> (Identity, Option<Metadata>) {
    match path.metadata() {
        Ok(metadata) => {
            let identity = Identity::There(metadata.dev(), metadata.ino());
            (identity, Some(metadata))
        }
        Err(_) => {
            let path = resolve(path).unwrap_or_else(|_| path.to_owned());
            let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
            let real = directory.zip(path.file_name());
            let real = real.map(|(directory, name)| directory.join(name));
            (Identity::At(real.unwrap_or(path)), None)
        }
    }
}

/// Says what stands in the place of a file.
fn unfit(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}
