//! Reading a configuration: finds the file, reads it, interprets it, tells all that is wrong.
//!
//! The environment and the working directory are arguments; the only thing that is looked at is
//! the file itself (and whether directories on a relative path are symbolic links).

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::problem::{ConfigError, Position, Problem};
use super::reader::{Context, Fields, settings};
use super::settings::{Setting, complete};
use super::tree::{Node, NodeValue, Tree};
use super::{Overrides, paths, site};
use crate::base::regular::open_regular;
use crate::model::config::Config;

/// The environment variable that names the file where `--config` is not given.
pub const FILE_VARIABLE: &str = "SNBB_CONFIG";

/// Says where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A relative path is relative to the working directory.
    File(PathBuf),
    /// No file: the built-in defaults.
    Defaults,
}

/// A configuration is a few kilobytes; whatever is larger than this is another file.
const LARGEST: u64 = 1 << 20;

impl Source {
    /// Chooses `--config`, else `SNBB_CONFIG`, else the defaults.
    pub fn choose(flag: Option<PathBuf>, env: &dyn Fn(&str) -> Option<OsString>) -> Self {
        flag.or_else(|| {
            env(FILE_VARIABLE)
                .filter(|file| !file.is_empty())
                .map(PathBuf::from)
        })
        .map_or(Self::Defaults, Self::File)
    }
}

/// Loads a configuration. `cwd` is the absolute working directory.
///
/// # Errors
/// All problems of the file at once, or the reason why it cannot be read.
pub fn load(
    source: &Source,
    env: &dyn Fn(&str) -> Option<OsString>,
    overrides: &Overrides,
    cwd: &Path,
) -> Result<Config, ConfigError> {
    let (file, bytes, readable_by_all) = content(source, cwd)?;
    interpret(
        &bytes,
        file.as_deref(),
        readable_by_all,
        env,
        overrides,
        cwd,
    )
}

/// Loads a configuration, and lists all that holds with where it comes from.
///
/// # Errors
/// As [`load`].
pub fn load_settings(
    source: &Source,
    env: &dyn Fn(&str) -> Option<OsString>,
    overrides: &Overrides,
    cwd: &Path,
) -> Result<(Config, Vec<Setting>), ConfigError> {
    let (file, bytes, readable_by_all) = content(source, cwd)?;
    let mut list = Vec::new();
    let config = interpret_with(
        (&bytes, file.as_deref(), readable_by_all),
        (env, overrides, cwd),
        |context| list = settings(&Fields::top(context)),
    )?;
    complete(&mut list, &config, overrides);
    Ok((config, list))
}

/// The file's path, what is in it, and whether every user may read it; nothing without a file.
fn content(source: &Source, cwd: &Path) -> Result<(Option<PathBuf>, Vec<u8>, bool), ConfigError> {
    let Source::File(file) = source else {
        return Ok((None, Vec::new(), false));
    };
    let file = paths::absolute(cwd, file.as_os_str());
    let (bytes, readable_by_all) = read(&file).map_err(|error| unreadable(&file, &error))?;
    Ok((Some(file), bytes, readable_by_all))
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
    interpret_with(
        (bytes, file, readable_by_all),
        (env, overrides, cwd),
        |_| {},
    )
}

/// What a configuration is read with: the environment, the options, the working directory.
type Surroundings<'a> = (
    &'a dyn Fn(&str) -> Option<OsString>,
    &'a Overrides,
    &'a Path,
);

/// Shows `also` the file if nothing is wrong with it.
fn interpret_with(
    (bytes, file, readable_by_all): (&[u8], Option<&Path>, bool),
    (env, overrides, cwd): Surroundings<'_>,
    also: impl FnOnce(&Context<'_>),
) -> Result<Config, ConfigError> {
    let base = file.and_then(Path::parent).unwrap_or(cwd).to_path_buf();
    let tree = Tree::parse(bytes);
    let root = tree.as_ref().ok().and_then(|tree| tree.root.clone());
    let context = Context::new(file.map(Arc::from), base, env, root.as_deref());
    let config = match tree {
        Ok(tree) => {
            tree.problems
                .into_iter()
                .for_each(|problem| context.problem(problem));
            tree.warnings
                .into_iter()
                .for_each(|warning| context.warning(warning));
            if file.is_some() {
                says_something(root.as_deref(), &context);
            }
            let config = site::read(&context, overrides, cwd, readable_by_all);
            if context.is_sound() {
                also(&context);
            }
            config
        }
        Err(problem) => {
            context.problem(problem);
            None
        }
    };
    let (problems, warnings) = context.finish();
    match config {
        Some(config) if problems.is_empty() => Ok(Config { warnings, ..config }),
        _ => Err(ConfigError {
            file: file.map(Path::to_path_buf),
            problems,
            warnings,
            hint: None,
        }),
    }
}

/// A file that says nothing is one that was cut, or not saved yet: nobody means all of the defaults by it. Whoever
/// does, writes `{}`.
fn says_something(root: Option<&Node>, context: &Context<'_>) {
    let at = Position { line: 1, column: 1 };
    match root {
        Some(node) if !node.is_null() => {
            if matches!(&node.value, NodeValue::Mapping(entries) if entries.is_empty()) {
                context.warning(Problem::at(at, "the built-in defaults apply to all keys"));
            }
        }
        _ => context.problem(Problem {
            hint: Some("was it cut off, or is all of it commented out? `snbb-scheduler init` makes one; `{}` alone stands for the built-in defaults".to_owned()),
            ..Problem::at(at, "the configuration is empty")
        }),
    }
}

/// Returns the content, and whether every user of the machine may read it.
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
    let (words, hint) = match error.kind() {
        io::ErrorKind::NotFound => (
            "there is no such file".to_owned(),
            format!(
                "name the file by --config PATH or by the environment variable {FILE_VARIABLE}"
            ),
        ),
        io::ErrorKind::IsADirectory => (
            "it is a directory".to_owned(),
            "name the YAML file in it by --config PATH".to_owned(),
        ),
        io::ErrorKind::FileTooLarge => (
            format!("it is larger than {} MiB", LARGEST >> 20),
            "is it the configuration file?".to_owned(),
        ),
        io::ErrorKind::PermissionDenied => (
            "permission denied".to_owned(),
            "the user who runs this command must be able to read the file and enter its directory"
                .to_owned(),
        ),
        _ => (
            error.to_string(),
            format!("name a readable file by --config PATH or by {FILE_VARIABLE}"),
        ),
    };
    let problem = Problem {
        file: Some(Arc::from(file)),
        ..Problem::at(
            Position::default(),
            format!("cannot read the configuration: {words}"),
        )
    };
    ConfigError {
        file: Some(file.to_path_buf()),
        problems: vec![problem],
        warnings: Vec::new(),
        hint: Some(hint),
    }
}
