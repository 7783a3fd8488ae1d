//! Markers that can never match: no output directory of the whole study has the directory that they name first. Pure.

use super::{Finding, few};

/// So many results must lie there before anything is said of all of them.
pub const LEAST: usize = 3;

/// Holds what was seen of the outputs of one procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub procedure: String,
    /// Output directories that there could be.
    pub possible: usize,
    /// Those that were looked for: a sample.
    pub looked_for: usize,
    /// Of these, those that are there, hold anything, and belong to no job in flight.
    pub there: usize,
    /// Patterns whose first directory none of them has.
    pub never: Vec<String>,
}

/// Judges one procedure; nothing if there is nothing to say.
pub fn judge(facts: &Facts) -> Option<Finding> {
    let about = facts.procedure.clone();
    let is_sample = facts.looked_for < facts.possible;
    let sample = match is_sample {
        true => format!(" (a sample of {} of {})", facts.looked_for, facts.possible),
        false => String::new(),
    };
    if facts.there < LEAST {
        return None;
    }
    if facts.never.is_empty() {
        let text = format!("the directories that its markers name are there{sample}");
        return Some(Finding::ok("markers", about, text));
    }
    let what = match is_sample {
        true => "matches nowhere that was looked at",
        false => "can never match",
    };
    Some(Finding::warning(
        "markers",
        about,
        format!(
            "{what}: {}; none of {} output directories has the first directory of it{sample}",
            few(&facts.never),
            facts.there
        ),
        "take the marker out, or give it a `when` if only some sessions have such data; `snbb-scheduler explain SUBJECT` shows the markers of its tasks",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn facts(there: usize, never: &[&str]) -> Facts {
        Facts {
            procedure: "bids".to_owned(),
            possible: 100,
            looked_for: 100,
            there,
            never: never.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn a_directory_that_is_nowhere_is_a_warning_once_there_is_enough_to_tell() {
        assert_eq!(judge(&facts(2, &["dwi/*_dwi.nii.gz"])), None);
        assert_eq!(judge(&facts(2, &[])), None);
        assert_eq!(judge(&facts(3, &[])).unwrap().level, Level::Ok);
        let warned = judge(&facts(3, &["dwi/*_dwi.nii.gz"])).unwrap();
        assert_eq!(warned.level, Level::Warning);
        assert!(
            warned.text.contains("dwi/*_dwi.nii.gz; none of 3 output"),
            "{warned:?}"
        );
        let sample = judge(&Facts {
            possible: 10_000,
            ..facts(50, &["dwi/x"])
        });
        let text = sample.unwrap().text;
        assert!(
            text.starts_with("matches nowhere that was looked at: dwi/x"),
            "{text}"
        );
        assert!(text.ends_with("(a sample of 100 of 10000)"), "{text}");
    }
}
