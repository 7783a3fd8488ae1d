//! The list of all configuration keys, with their descriptions.
//!
//! The reader takes bounds, choices and defaults from it. The schema for editors, the tables of the documentation and
//! the manual page are generated from it, the first two by the tests.
//! `site`, `steps` and `markers` interpret the values.

pub mod kind;
mod table;

pub use kind::{Fallback, Kind};
pub use table::KEYS;

use crate::base::words::words;
use crate::model::bids::suggest;

words! {
    /// The mapping that a key belongs to. Its word identifies its table in the documentation.
    pub enum Section {
        /// The top of the file.
        Site = "site",
        Audit = "audit",
        /// An entry of `audit`'s `log_patterns`.
        LogPattern = "log-pattern",
        /// An entry of `procedures`.
        Procedure = "procedure",
        /// An entry of a procedure's `depends_on`.
        Dependency = "dependency",
        /// An entry of a procedure's `completion_marker`.
        Marker = "marker",
        Retry = "retry",
        /// A reason in `retry`'s `on`.
        RetryRule = "retry-rule",
        Safety = "safety",
        Notify = "notify",
    }
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub section: Section,
    pub name: &'static str,
    pub kind: Kind,
    pub default: Fallback,
    /// Shown in the documentation, without a full stop.
    pub doc: &'static str,
}

impl Section {
    /// Completes the sentence "a key of ...".
    pub fn place(self) -> &'static str {
        match self {
            Self::Site => "the top level",
            Self::Audit => "'audit'",
            Self::LogPattern => "an entry of 'log_patterns'",
            Self::Procedure => "a procedure",
            Self::Dependency => "an entry of 'depends_on'",
            Self::Marker => "an entry of 'completion_marker'",
            Self::Retry => "'retry'",
            Self::RetryRule => "a reason in 'on'",
            Self::Safety => "'safety'",
            Self::Notify => "'notify'",
        }
    }

    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        KEYS.iter().filter(move |key| key.section == self)
    }

    pub fn key(self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// A hint about an unknown key.
    pub fn suggest(self, name: &str) -> Option<String> {
        let names = || self.keys().map(|key| key.name);
        if let Some(near) = suggest::nearest(name, names()) {
            return Some(format!("did you mean '{near}'?"));
        }
        let folded = suggest::fold(name);
        let mut others = KEYS.iter().filter(|key| key.section != self);
        if let Some(key) = others.find(|key| suggest::fold(key.name) == folded) {
            let place = key.section.place();
            return Some(format!("'{}' is a key of {place}", key.name));
        }
        let similar = names().find(|key| suggest::candidates(name, [*key]).next().is_some())?;
        Some(format!("did you mean '{similar}'?"))
    }
}

#[cfg(test)]
mod tests {
    use super::Section::{Marker, Procedure, Site};
    use super::*;

    #[test]
    fn every_key_is_unique_and_described() {
        for section in Section::ALL {
            let mut names: Vec<&str> = section.keys().map(|key| key.name).collect();
            names.sort_unstable();
            let before = names.len();
            names.dedup();
            assert_eq!(before, names.len(), "{section:?}");
        }
        for key in KEYS {
            assert!(!key.doc.is_empty(), "{}", key.name);
            assert!(!key.doc.ends_with('.'), "{}", key.name);
        }
    }

    #[test]
    fn an_unknown_key_gets_a_suggestion() {
        for (section, name, expected) in [
            (Site, "slurm_partiton", "did you mean 'slurm_partition'?"),
            (Site, "slurm-partition", "did you mean 'slurm_partition'?"),
            (Site, "Bids_Root", "did you mean 'bids_root'?"),
            (Site, "qos", "'qos' is a key of a procedure"),
            (Site, "mem", "'mem' is a key of a procedure"),
            (Site, "slurm_memory", "did you mean 'slurm_mem'?"),
            (Site, "retri", "did you mean 'retry'?"),
            (Procedure, "depends", "did you mean 'depends_on'?"),
            (Procedure, "scop", "did you mean 'scope'?"),
            (Procedure, "cpus", "did you mean 'cpus_per_task'?"),
            (
                Procedure,
                "bids_root",
                "'bids_root' is a key of the top level",
            ),
        ] {
            assert_eq!(section.suggest(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(Marker.suggest("path"), None);
    }
}
