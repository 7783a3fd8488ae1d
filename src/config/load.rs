//! Loads a configuration: finds the file, reads it, and reports everything that is wrong with it.
//!
//! The environment and the working directory are arguments. The only things read from disk are
//! the file itself and whether directories on a relative path are symbolic links.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::{ConfigError, Position, Problem};
use super::reader::Context;
use super::settings::{Setting, settings};
use super::tree::{Node, Tree};
use super::{Overrides, paths, site};
use crate::base::regular::{error_text, open_regular};
use crate::model::config::Config;

/// The environment variable for the file, used without `--config`.
pub const FILE_VARIABLE: &str = "SNBB_CONFIG";

/// A configuration is a few kilobytes; a file larger than this is something else.
const LARGEST: u64 = 1 << 20;

/// The file that `--config` names, else `SNBB_CONFIG`. `None` for the built-in defaults.
pub fn choose(flag: Option<PathBuf>, env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = || env(FILE_VARIABLE).filter(|file| !file.is_empty());
    flag.or_else(|| named().map(PathBuf::from))
}

/// Loads a configuration, or the built-in defaults, and lists every effective setting with its origin. A relative path
/// of the file is relative to `cwd`, the absolute working directory.
///
/// # Errors
/// All problems of the file at once, or why it cannot be read.
pub fn load(
    file: Option<&Path>,
    env: &dyn Fn(&str) -> Option<OsString>,
    overrides: &Overrides,
    cwd: &Path,
) -> Result<(Config, Vec<Setting>), ConfigError> {
    let Some(file) = file else {
        return interpret_settings(&[], None, false, env, overrides, cwd);
    };
    let file = paths::absolute(cwd, file.as_os_str());
    let (bytes, readable_by_all) = read(&file).map_err(|error| unreadable(&file, &error))?;
    interpret_settings(&bytes, Some(&file), readable_by_all, env, overrides, cwd)
}

/// Interprets the bytes of a configuration file. `file` is absolute.
///
/// # Errors
/// All problems at once.
pub fn interpret(
    bytes: &[u8],
    file: Option<&Path>,
    readable_by_all: bool,
    env: &dyn Fn(&str) -> Option<OsString>,
    overrides: &Overrides,
    cwd: &Path,
) -> Result<Config, ConfigError> {
    interpret_settings(bytes, file, readable_by_all, env, overrides, cwd).map(|(config, _)| config)
}

fn interpret_settings(
    bytes: &[u8],
    file: Option<&Path>,
    readable_by_all: bool,
    env: &dyn Fn(&str) -> Option<OsString>,
    overrides: &Overrides,
    cwd: &Path,
) -> Result<(Config, Vec<Setting>), ConfigError> {
    let base = file.and_then(Path::parent).unwrap_or(cwd).to_path_buf();
    let tree = Tree::parse(bytes);
    let root = tree.as_ref().ok().and_then(|tree| tree.root.clone());
    let context = Context::new(file.map(Arc::from), base, env, overrides, root.as_deref());
    let config = match tree {
        Ok(tree) => {
            for warning in tree.warnings {
                context.warning(warning);
            }
            // An empty file was probably truncated or not saved yet.
            if file.is_some() && root.as_deref().is_none_or(Node::is_null) {
                context.problem(Problem::at(
                    Position { line: 1, column: 1 },
                    "the configuration is empty (it may be truncated or commented out entirely; create one with \
                     `snbb-scheduler init`, or write `{}` to use the built-in defaults)",
                ));
            }
            site::read(&context, cwd, readable_by_all)
        }
        Err(problem) => {
            context.problem(problem);
            None
        }
    };
    let list = match &config {
        Some(config) if context.is_valid() => settings(&context, config),
        _ => Vec::new(),
    };
    let (problems, warnings) = context.finish();
    match config {
        Some(config) if problems.is_empty() => Ok((Config { warnings, ..config }, list)),
        _ => Err(ConfigError {
            problems,
            warnings,
            hint: None,
        }),
    }
}

/// The content, and whether every user of the machine may read the file.
fn read(file: &Path) -> io::Result<(Vec<u8>, bool)> {
    let open = open_regular(file)?;
    let metadata = open.metadata()?;
    let mut bytes = Vec::new();
    open.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok((bytes, metadata.mode() & 0o004 != 0))
}

fn unreadable(file: &Path, error: &io::Error) -> ConfigError {
    let words = match error.kind() {
        io::ErrorKind::NotFound => "the file does not exist".to_owned(),
        io::ErrorKind::FileTooLarge => format!("it is larger than {} MiB", LARGEST >> 20),
        _ => error_text(error),
    };
    let message = format!("cannot read the configuration: {words}");
    let problem = Problem {
        file: Some(Arc::from(file)),
        ..Problem::at(Position::default(), message)
    };
    ConfigError {
        problems: vec![problem],
        warnings: Vec::new(),
        hint: Some(format!(
            "pass a readable YAML file with --config PATH or {FILE_VARIABLE}"
        )),
    }
}
