//! Files that keys name: each is a regular file, and no file that the program writes is another file of the study.
//!
//! Looks at the files themselves, since links and mounts give one file several names. What is not there yet is
//! compared by its path.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::reader::{Context, Fields};
use super::{Config, SessionSource, validate};
use crate::bids::cohort::ListSource;
use crate::disk::annex;
use crate::state::store::{StatePaths, resolve};

const STATE: &str = "state_file";

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

pub(super) fn check(config: &Config, fields: &Fields<'_>, context: &Context<'_>) {
    let mut known: Vec<Named> = Vec::new();
    let mut add = |key: &'static str, what: &str, path: &Path, is_written: bool| {
        let (identity, metadata) = look(path);
        if let Some(problem) = metadata.and_then(|metadata| unfit(&metadata)) {
            let message = format!("{} is {problem}, not a regular file", path.display());
            return validate::problem(fields, context, key, &message);
        }
        if is_written && is_annexed(path) {
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
    };
    if let Some(file) = &config.file {
        add("configuration", "the configuration", file, false);
    }
    for (key, file) in read_only(config) {
        add(key, key, file, false);
    }
    for (_, procedure) in config.procedures.iter() {
        let dirs = [config.script_dir.as_deref(), config.base_dir()];
        for dir in dirs.into_iter().flatten() {
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
            add(
                STATE,
                &format!("{name}, which belongs to the state,"),
                path,
                true,
            );
        }
    }
    add("log_file", "log_file", &config.log_file, true);
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

/// True if the path, or a link that it leads over, is a link into git-annex's store.
fn is_annexed(path: &Path) -> bool {
    let mut path = path.to_owned();
    // The kernel's own limit on links.
    for _ in 0..40 {
        let Ok(target) = path.read_link() else {
            return false;
        };
        if annex::elsewhere(target.as_os_str().as_encoded_bytes()).is_some() {
            return true;
        }
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    false
}
