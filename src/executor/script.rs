//! Finds and checks job scripts before submission.
//!
//! The rules are sbatch's, so that Slurm accepts every script that the local executor accepts. sbatch takes options from
//! lines that begin with `#SBATCH`, up to the first line that is neither blank nor a comment. Words are split at white
//! space; `'`, `"` and `\` quote, `#` begins a comment.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::base::regular::FileError;
use crate::base::sys;
use crate::executor::ExecutorError;
use crate::model::procedure::options::{Arguments, Class};

/// The default of Slurm's `SchedulerParameters=max_script_size`.
const MAX_SIZE: u64 = 4 << 20;

/// A job script as it was at submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The program of the `#!` line, and its argument, if any.
    pub interpreter: Vec<String>,
    pub text: Vec<u8>,
}

/// Why a file cannot be a job script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error(transparent)]
    Read(#[from] FileError),
    #[error("script {} is larger than {} MiB", .0.display(), MAX_SIZE >> 20)]
    TooLarge(PathBuf),
    #[error("script {} does not begin with '#!' and the path of an interpreter", .0.display())]
    NoInterpreter(PathBuf),
    #[error("script {} has DOS line breaks (\\r\\n): convert it with dos2unix", .0.display())]
    DosLineBreaks(PathBuf),
}

/// [`find_script`] with the `PATH` of this process.
pub fn find_on_path(script: &str, dirs: &[PathBuf]) -> Result<PathBuf, ExecutorError> {
    find_script(script, dirs, &search_path(sys::env("PATH").as_deref()))
}

/// Finds a script: an absolute path as it is, otherwise below each of `dirs`, or (a bare name) in the directories of
/// `search_path`. The error lists the searched places, those of `search_path` only if they have something
/// else with this name. A file in `dirs` that cannot be read is an error.
pub fn find_script(
    script: &str,
    dirs: &[PathBuf],
    search_path: &[PathBuf],
) -> Result<PathBuf, ExecutorError> {
    let path = Path::new(script);
    let mut candidates: Vec<(PathBuf, String)> = match path.is_absolute() {
        true => vec![(path.to_owned(), script.to_owned())],
        false => {
            let dirs = dirs.iter();
            dirs.map(|dir| (dir.join(path), dir.display().to_string()))
                .collect()
        }
    };
    if path.is_relative() && path.components().count() == 1 {
        let dirs = search_path.iter();
        candidates.extend(dirs.map(|dir| (dir.join(path), "PATH".to_owned())));
    }
    let mut searched: Vec<String> = Vec::new();
    for (candidate, place) in candidates {
        // Opened, to find an unreadable script. Only regular files: a named pipe would wait for its writer.
        let metadata = std::fs::metadata(&candidate).and_then(|metadata| {
            if metadata.is_file() {
                std::fs::File::open(&candidate)?;
            }
            Ok(metadata)
        });
        searched.push(match metadata {
            Ok(metadata) if metadata.is_file() => return Ok(candidate),
            Ok(_) => format!("{} (not a file)", candidate.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => place,
            // Another script of this name must not take the place of the configured one.
            Err(error) if place != "PATH" => {
                return Err(FileError::of("read script", &candidate)(error).into());
            }
            Err(error) => format!("{} ({error})", candidate.display()),
        });
    }
    searched.dedup();
    Err(ExecutorError::ScriptMissing {
        script: script.to_owned(),
        searched,
    })
}

/// The directories of a `PATH`. An empty or relative entry means the working directory, which is different under cron.
pub fn search_path(path: Option<&OsStr>) -> Vec<PathBuf> {
    let dirs = path.into_iter().flat_map(std::env::split_paths);
    dirs.filter(|dir| dir.is_absolute()).collect()
}

/// Refuses a script whose `#SBATCH` lines change how sbatch answers. sbatch itself reports an unreadable script.
pub fn check_header(path: &Path) -> Result<(), ExecutorError> {
    match text_of(path).ok().and_then(|text| unfit(&text)) {
        None => Ok(()),
        Some((line, option, why)) => Err(ExecutorError::ScriptUnfit {
            path: path.to_owned(),
            line,
            option,
            why,
        }),
    }
}

/// The options in a script's `#SBATCH` lines; none if it is unreadable.
pub fn header_of(path: &Path) -> Arguments {
    options(&text_of(path).unwrap_or_default())
}

/// The text of a script; of one that is too large, one byte more than is allowed.
fn text_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_SIZE + 1).read_to_end(&mut text)?;
    Ok(text)
}

impl Script {
    /// Reads a script and refuses what sbatch would refuse.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let text = text_of(path).map_err(FileError::of("read script", path))?;
        if text.len() as u64 > MAX_SIZE {
            return Err(ScriptError::TooLarge(path.to_owned()));
        }
        if text.windows(2).any(|pair| pair == b"\r\n") {
            return Err(ScriptError::DosLineBreaks(path.to_owned()));
        }
        let interpreter =
            interpreter(&text).ok_or_else(|| ScriptError::NoInterpreter(path.to_owned()))?;
        Ok(Self { interpreter, text })
    }
}

/// Splits a `#!` line as the Linux kernel does: everything after the program is one argument.
fn interpreter(text: &[u8]) -> Option<Vec<String>> {
    let line = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line.strip_prefix(b"#!")?).ok()?.trim();
    let mut words = line.splitn(2, [' ', '\t']);
    let program = words.next().filter(|program| program.starts_with('/'))?;
    let argument = words.next().map(str::trim);
    Some(
        std::iter::once(program)
            .chain(argument)
            .map(str::to_owned)
            .collect(),
    )
}

/// The `#SBATCH` lines that sbatch ignores, with line numbers from 1: those after the first line that is neither
/// empty nor a comment, and indented ones. Lines in a here-document belong to another script and are left out.
pub fn ignored_directives(text: &[u8]) -> Vec<(usize, String)> {
    let mut ignored = Vec::new();
    let mut had_command = false;
    let mut until: Option<String> = None;
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let trimmed = line.trim();
        if let Some(end) = &until {
            if trimmed == end {
                until = None;
            }
            continue;
        }
        let is_directive = trimmed
            .strip_prefix("#SBATCH")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_directive {
            if had_command || !line.starts_with('#') {
                ignored.push((index + 1, trimmed.to_owned()));
            }
        } else if !trimmed.is_empty() && !trimmed.starts_with('#') {
            had_command = true;
            until = here_document(trimmed);
        }
    }
    ignored
}

/// The word that ends the here-document that begins in a line.
fn here_document(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    let rest = rest.strip_prefix('-').unwrap_or(rest).trim_start();
    let word: String = rest
        .trim_start_matches(['\'', '"', '\\'])
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    // `<<<` is a here-string, `1<<2` arithmetic.
    let is_word = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    is_word.then_some(word)
}

const MAGIC: &[u8] = b"#SBATCH";

/// The lines before the first one that is neither blank nor a comment.
pub fn header(script: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = script.split(|byte| *byte == b'\n').enumerate();
    lines.take_while(|(_, line)| matches!(line.trim_ascii_start().first(), None | Some(b'#')))
}

/// The words after `#SBATCH` as sbatch sees them. A quotation without end extends to the end of the line (sbatch
/// refuses the script).
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => word.get_or_insert_default().push(c),
            '"' | '\'' => quote = Some(c),
            '#' => break,
            _ if c.is_ascii_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The options that sbatch takes from a script, with line numbers from 1.
pub fn options(script: &[u8]) -> Arguments {
    let lines = header(script).filter_map(|(at, line)| {
        let text = String::from_utf8_lossy(line.strip_prefix(MAGIC)?);
        Some(words(&text).into_iter().map(move |word| (at + 1, word)))
    });
    Arguments::parse(lines.flatten())
}

/// The first option that changes how sbatch answers or keeps its job from being found, if any: its line, its text and
/// the reason.
pub fn unfit(script: &[u8]) -> Option<(usize, String, &'static str)> {
    options(script)
        .iter()
        .find_map(|argument| match argument.option?.class {
            Class::Unfit(why) => Some((argument.at, argument.word.clone(), why)),
            _ => None,
        })
}

#[cfg(test)]
mod tests;
