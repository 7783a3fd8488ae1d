//! The control file: pauses until a `resume`, and since when failures count again.
//!
//! Without a file, nothing is paused. A file that is unreadable or has unknown contents is an error,
//! and never treated as missing. Nothing here decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::base::durable;
use crate::store::state_file::{LockedStore, StateError, Store};

/// The format version. Others are refused.
const FORMAT: u32 = 1;

/// The contents of the control file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    format: u32,
    #[serde(default, skip_serializing_if = "Switch::is_empty")]
    pub study: Switch,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub procedures: BTreeMap<Arc<str>, Switch>,
    /// The bytes of the file when it was read; `None` if it did not exist.
    #[serde(skip)]
    origin: Option<Vec<u8>>,
}

/// The pause of the study or of a procedure, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// Failures of jobs submitted before this time do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    pub since: DateTime<Utc>,
    pub cause: PauseCause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseCause {
    /// The command `pause`, with its note.
    Person {
        by: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// The circuit breaker, after this many consecutive failures.
    Failures { count: u32 },
}

impl Switch {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Control {
    /// The pause that applies to a procedure; a pause of the study takes precedence.
    pub fn pause_of(&self, procedure: &str) -> Option<&Pause> {
        self.study
            .paused
            .as_ref()
            .or_else(|| self.procedures.get(procedure)?.paused.as_ref())
    }

    /// All pauses: of the study (`None`), then of procedures by name.
    pub fn pauses(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Pause)> {
        let study = self.study.paused.iter().map(|pause| (None, pause));
        study.chain(self.procedures.iter().filter_map(|(name, switch)| {
            let pause = switch.paused.as_ref()?;
            Some((Some(name), pause))
        }))
    }

    /// Failures of jobs that were submitted before this time do not count.
    pub fn forgiven_until(&self, procedure: &str) -> Option<DateTime<Utc>> {
        let own = self.procedures.get(procedure);
        self.study
            .resumed_at
            .max(own.and_then(|switch| switch.resumed_at))
    }

    pub fn switch_mut(&mut self, procedure: Option<&Arc<str>>) -> &mut Switch {
        match procedure {
            None => &mut self.study,
            Some(name) => self.procedures.entry(Arc::clone(name)).or_default(),
        }
    }

    /// Removes times of resuming before `time`, since no failure that old is counted.
    pub fn forget_before(&mut self, time: DateTime<Utc>) {
        let switches = std::iter::once(&mut self.study).chain(self.procedures.values_mut());
        for switch in switches {
            switch.resumed_at = switch.resumed_at.filter(|at| *at >= time);
        }
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, String> {
        let control: Self = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if control.format != FORMAT {
            return Err(format!(
                "it has format {}, but this version of snbb-scheduler supports only format {FORMAT}",
                control.format
            ));
        }
        Ok(Self {
            origin: Some(bytes),
            ..control
        })
    }

    /// `None` if there is nothing to write.
    fn to_bytes(&self) -> Result<Option<Vec<u8>>, serde_json::Error> {
        let mut control = Self {
            format: FORMAT,
            ..self.clone()
        };
        control.procedures.retain(|_, switch| !switch.is_empty());
        if control.study.is_empty() && control.procedures.is_empty() {
            return Ok(None);
        }
        let mut bytes = serde_json::to_vec_pretty(&control)?;
        bytes.push(b'\n');
        Ok(Some(bytes))
    }
}

impl Store {
    pub fn read_control(&self) -> Result<Control, StateError> {
        let path = &self.paths.control;
        let Some(bytes) = durable::read(path)? else {
            return Ok(Control::default());
        };
        Control::parse(bytes).map_err(|message| {
            let path = path.display();
            StateError::refused(
                format!("cannot use {path}: {message}"),
                format!(
                    "correct it, or move {path} away and run `snbb-scheduler pause` for everything that should stay \
                     paused; until then nothing is submitted"
                ),
            )
        })
    }
}

impl LockedStore {
    /// Replaces the control file, or removes it if it would be empty. Refuses if the file changed
    /// since it was read.
    pub fn save_control(&self, control: &mut Control) -> Result<(), StateError> {
        let path = &self.store.paths.control;
        let bytes = control.to_bytes();
        let bytes = bytes.map_err(|error| StateError::io("write", path)(error.into()))?;
        if bytes == control.origin {
            return Ok(());
        }
        self.check_lock()?;
        match &bytes {
            Some(bytes) => durable::replace(path, bytes, control.origin.as_ref())?,
            None => {
                let failed = StateError::io("remove", path);
                if durable::read(path)? != control.origin {
                    return Err(StateError::Conflict(path.clone()));
                }
                let removed = std::fs::remove_file(path);
                removed
                    .and_then(|()| durable::sync_directory_of(path))
                    .map_err(failed)?;
            }
        }
        control.origin = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::model::state::testing::at;

    fn store(dir: &std::path::Path) -> (Store, LockedStore) {
        let store = Store::at(&dir.join("state.parquet")).unwrap();
        let locked = store.clone().lock("test", Duration::from_secs(1)).unwrap();
        (store, locked)
    }

    fn person(note: Option<&str>) -> Pause {
        Pause {
            since: at(1),
            cause: PauseCause::Person {
                by: "ada".to_owned(),
                note: note.map(str::to_owned),
            },
        }
    }

    #[test]
    fn a_saved_file_is_read_back_and_an_empty_one_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (store, locked) = store(dir.path());
        let path = store.paths.control.clone();
        let mut control = store.read_control().unwrap();
        locked.save_control(&mut control).unwrap();
        assert!(
            path.symlink_metadata().is_err(),
            "no file if there is no pause"
        );

        let name: Arc<str> = "prep".into();
        control.study.paused = Some(person(Some("disk\n\u{1b}[31m is full")));
        control.switch_mut(Some(&name)).paused = Some(Pause {
            since: at(2),
            cause: PauseCause::Failures { count: 10 },
        });
        control.switch_mut(Some(&name)).resumed_at = Some(at(0));
        control.switch_mut(Some(&"idle".into()));
        locked.save_control(&mut control).unwrap();
        let mut read = store.read_control().unwrap();
        assert_eq!(read.study, control.study);
        assert_eq!(read.procedures.len(), 1, "an empty switch is not written");
        assert_eq!(read.procedures["prep"], control.procedures["prep"]);
        assert_eq!(read.pauses().count(), 2);
        assert_eq!(read.pause_of("other"), read.study.paused.as_ref());
        assert_eq!(read.forgiven_until("prep"), Some(at(0)));

        // A pause of the study also stops a procedure that was resumed.
        read.switch_mut(Some(&name)).paused = None;
        assert_eq!(read.pause_of("prep"), read.study.paused.as_ref());

        let stale = read.clone();
        read.study.paused = None;
        read.procedures.clear();
        locked.save_control(&mut read).unwrap();
        assert!(path.symlink_metadata().is_err());
        assert!(store.read_control().unwrap().pauses().next().is_none());
        let mut late = stale;
        late.study.paused = None;
        assert!(matches!(
            locked.save_control(&mut late),
            Err(StateError::Conflict { .. })
        ));
        assert!(path.symlink_metadata().is_err(), "nothing was overwritten");
    }

    #[test]
    fn an_invalid_file_is_never_taken_for_no_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let (store, _) = store(dir.path());
        for text in [
            "",
            "{",
            "[]",
            "null",
            "{}",
            r#"{"format": 2}"#,
            r#"{"format": 2, "holidays": []}"#,
            r#"{"format": 1, "holidays": []}"#,
            r#"{"format": 1, "study": {"paused": {"since": "now", "cause": {"failures": {"count": 3}}}}}"#,
            r#"{"format": 1, "procedures": {"a": {"paused": {"since": "2026-01-01T00:00:00Z", "cause": {"moon": {}}}}}}"#,
            r#"{"format": 1, "procedures": {"a": {"paused": {"since": "2026-01-01T00:00:00Z", "cause": {"failures": {"count": 3, "of": 4}}}}}}"#,
        ] {
            std::fs::write(&store.paths.control, text).unwrap();
            let error = store.read_control().unwrap_err();
            assert!(error.hint().is_some(), "{text}");
            assert!(error.to_string().contains("control.json"), "{error}");
        }
        std::fs::remove_file(&store.paths.control).unwrap();
        std::fs::create_dir(&store.paths.control).unwrap();
        assert!(store.read_control().is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Control::parse(bytes);
        }

        #[test]
        fn a_cut_file_is_not_read(cut in 0usize..1000) {
            let mut control = Control::default();
            control.switch_mut(Some(&"prep".into())).paused = Some(person(Some("note")));
            let bytes = control.to_bytes().unwrap().unwrap();
            let end = cut % (bytes.len() - 1);
            prop_assert!(Control::parse(bytes[..end].to_vec()).is_err());
        }
    }
}
