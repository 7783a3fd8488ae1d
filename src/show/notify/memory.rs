//! What an invocation leaves for later ones: the last run, counters, and the events already reported.
//! If the file is lost, one digest is sent twice and the counters restart.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Command, Figures, Invocation};
use crate::base::durable;
use crate::base::durable::ReplaceError;
use crate::base::exit::Exit;
use crate::base::regular::FileError;

/// The content of the file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// The newest run, excluding dry runs.
    pub last_run: Option<LastRun>,
    /// The newest run that ended with exit code 0.
    pub last_good_run: Option<DateTime<Utc>>,
    /// Decisions of the newest run without a selection.
    pub survey: Option<Survey>,
    pub sums: Sums,
    /// Consecutive invocations without an answer from Slurm.
    pub unreachable_in_a_row: u32,
    /// Consecutive runs that found the lock held by another invocation.
    pub locked_in_a_row: u32,
    /// By channel: the names of events that were reported and still hold.
    #[serde(rename = "told")] // the key of earlier versions
    pub reported: BTreeMap<String, BTreeSet<String>>,
    /// By command: warnings of the last quiet invocation, with the time when each was last printed.
    pub warned: BTreeMap<String, BTreeMap<String, DateTime<Utc>>>,
    /// The bytes that this was read from. `None` if there was no file.
    #[serde(skip)]
    origin: Option<Vec<u8>>,
}

/// How the last run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastRun {
    pub ended_at: DateTime<Utc>,
    pub seconds: f64,
    pub exit: u8,
}

/// Results of the last run of the whole study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    pub at: DateTime<Utc>,
    pub figures: Figures,
}

/// Counters since the file was created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Runs by exit code.
    pub runs: BTreeMap<u8, u64>,
    pub submitted: u64,
    pub refused: u64,
    pub in_doubt: u64,
    /// Digests that could not be delivered.
    pub undelivered: u64,
}

/// Text that every such file contains.
const MARK: &[u8] = b"\"sums\"";

impl Memory {
    /// Reads the file. If it is unreadable or damaged, returns an empty memory and a warning.
    pub fn read(path: &Path) -> (Self, Option<String>) {
        let (bytes, path) = (durable::read(path), path.display());
        let bytes = match bytes {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Default::default(),
            Err(error) => {
                let warning = format!("cannot read {path}: {error}");
                return (Self::default(), Some(warning));
            }
        };
        let memory = serde_json::from_slice::<Self>(&bytes);
        let damage = memory.as_ref().err();
        let warning = damage.map(|error| format!("{path} is damaged; starting a new one: {error}"));
        let mut memory = memory.unwrap_or_default();
        // A foreign file gets no origin, so it is never replaced.
        if bytes.is_empty() || durable::contains(&bytes, MARK) {
            memory.origin = Some(bytes);
        }
        (memory, warning)
    }

    /// Writes the file if its content changed.
    ///
    /// # Errors
    /// Another invocation has written to it, so that it must be read again, or it cannot be written.
    pub fn save(&mut self, path: &Path) -> Result<(), ReplaceError> {
        let written = serde_json::to_vec(self).map_err(io::Error::from);
        let mut bytes = written.map_err(FileError::of("write", path))?;
        bytes.push(b'\n');
        if self.origin.as_ref() == Some(&bytes) {
            return Ok(());
        }
        durable::make_directory_of(path).map_err(FileError::of("make the directory of", path))?;
        durable::replace(path, &bytes, self.origin.as_ref())?;
        self.origin = Some(bytes);
        Ok(())
    }

    /// Adds the results of an invocation.
    pub fn add(&mut self, call: &Invocation) {
        if call.command == Command::Retry {
            return;
        }
        self.unreachable_in_a_row = match call.exit {
            Exit::Unreachable => self.unreachable_in_a_row.saturating_add(1),
            // Slurm was not asked.
            Exit::Locked => self.unreachable_in_a_row,
            _ => 0,
        };
        if call.command != Command::Run {
            return;
        }
        self.locked_in_a_row = match call.exit {
            Exit::Locked => self.locked_in_a_row.saturating_add(1),
            _ => 0,
        };
        self.last_run = Some(LastRun {
            ended_at: call.ended_at,
            seconds: call.seconds(),
            exit: call.exit.code(),
        });
        if call.exit == Exit::Done {
            self.last_good_run = Some(call.ended_at);
        }
        *self.sums.runs.entry(call.exit.code()).or_default() += 1;
        if let Some(figures) = &call.figures {
            self.sums.submitted += figures.submitted as u64;
            self.sums.refused += figures.refused() as u64;
            self.sums.in_doubt += figures.in_doubt as u64;
            if figures.whole {
                self.survey = Some(Survey {
                    at: call.ended_at,
                    figures: figures.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::at;

    fn call(command: Command, exit: Exit) -> Invocation {
        Invocation {
            ended_at: at(3),
            exit,
            figures: Some(Figures {
                whole: true,
                submitted: 2,
                refused: vec![("a".to_owned(), 3)],
                ..Figures::default()
            }),
            ..Invocation::begin(command, at(1))
        }
    }

    #[test]
    fn invocations_are_counted_by_command_and_exit_code() {
        let mut memory = Memory::default();
        memory.add(&call(Command::Run, Exit::Done));
        memory.add(&call(Command::Run, Exit::Unreachable));
        memory.add(&call(Command::Monitor, Exit::Unreachable));
        memory.add(&call(Command::Run, Exit::Locked));
        assert_eq!(
            (memory.unreachable_in_a_row, memory.locked_in_a_row),
            (2, 1)
        );
        assert_eq!(memory.sums.runs, BTreeMap::from([(0, 1), (4, 1), (5, 1)]));
        assert_eq!((memory.sums.submitted, memory.sums.refused), (6, 9));
        assert_eq!(memory.last_good_run, Some(at(3)));
        assert_eq!(memory.last_run.as_ref().map(|run| run.seconds), Some(120.0));
        memory.add(&call(Command::Retry, Exit::Error));
        memory.add(&call(Command::Monitor, Exit::Done));
        assert_eq!(
            (memory.unreachable_in_a_row, memory.locked_in_a_row),
            (0, 1)
        );
    }

    #[test]
    fn a_saved_memory_is_read_back_and_a_concurrent_save_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.calls.json");
        let (mut one, warning) = Memory::read(&path);
        assert_eq!(warning, None);
        let (mut other, _) = Memory::read(&path);
        one.add(&call(Command::Run, Exit::Refused));
        one.reported
            .entry("email".to_owned())
            .or_default()
            .insert("failed:x".to_owned());
        one.save(&path).unwrap();
        other.add(&call(Command::Run, Exit::Done));
        let refused = other.save(&path);
        assert!(matches!(refused, Err(ReplaceError::Changed(_))));
        let (read, _) = Memory::read(&path);
        assert_eq!(read.sums, one.sums);
        assert_eq!(read.reported, one.reported);
        assert_eq!(read.last_run, one.last_run);
    }

    #[test]
    fn a_damaged_file_starts_anew_with_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.calls.json");
        for text in ["", r#"{"sums": 3}"#, r#"{"sums": "#] {
            std::fs::write(&path, text).unwrap();
            let (mut memory, warning) = Memory::read(&path);
            assert!(warning.is_some(), "{text}");
            memory.add(&call(Command::Run, Exit::Done));
            memory.save(&path).unwrap();
            assert_eq!(Memory::read(&path).1, None);
        }
        // E9: a file of another program is never replaced.
        std::fs::write(&path, "3").unwrap();
        let (mut memory, warning) = Memory::read(&path);
        assert!(warning.is_some());
        memory.add(&call(Command::Run, Exit::Done));
        let refused = memory.save(&path);
        assert!(matches!(refused, Err(ReplaceError::Changed(_))));
        // Keys of a later version do not count as damage.
        std::fs::write(&path, r#"{"later": 1, "locked_in_a_row": 3}"#).unwrap();
        let (memory, warning) = Memory::read(&path);
        assert_eq!((memory.locked_in_a_row, warning), (3, None));
    }
}
