//! The decision words, such as `complete` or `due`, with their short forms, colours, symbols and groups, and the
//! progress of each procedure in them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use anstyle::AnsiColor;

use crate::base::words::words;
use crate::decide::manifest::{Decision, Manifest};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::{State, TaskStatus};

words! {
    /// The state of a task, in the order of summaries.
    pub enum TaskState {
        Complete = "complete",
        Running = "running",
        Pending = "pending",
        ForeignJob = "foreign-job",
        Due = "due",
        Limit = "limit",
        Paused = "paused",
        /// Will become due automatically.
        Waiting = "waiting",
        /// Cannot start: a dependency failed, is unreadable or applies to no session.
        Blocked = "blocked",
        Failed = "failed",
        Unreadable = "unreadable",
        NoDicom = "no-dicom",
        Settling = "settling",
        FewDicom = "few-dicom",
        NotApplicable = "not-applicable",
        Excluded = "excluded",
        NotSelected = "not-selected",
    }
}

words! {
    /// States that the report shows together.
    pub enum Group {
        Complete = "complete",
        Flight = "flight",
        Ready = "ready",
        Waiting = "waiting",
        Blocked = "blocked",
        Failed = "failed",
        Unreadable = "unreadable",
        Lacking = "lacking",
        Out = "out",
    }
}

/// The presentation of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// At most five characters, for narrow terminals.
    pub short: &'static str,
    pub color: AnsiColor,
    /// One column wide.
    pub symbol: char,
    pub group: Group,
    /// 0 is the most urgent.
    pub urgency: u8,
}

impl TaskState {
    /// The state with the same word as a row's status.
    pub fn of_status(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Pending => Self::Pending,
            TaskStatus::Running => Self::Running,
            TaskStatus::Complete => Self::Complete,
            TaskStatus::Failed => Self::Failed,
        }
    }

    /// The state whose word, long or short, begins the cell.
    pub fn of_cell(cell: &str) -> Option<Self> {
        let word = first_word(cell);
        let mut all = Self::ALL.into_iter();
        all.find(|state| word == state.as_str() || word == state.style().short)
    }

    #[rustfmt::skip]
    pub fn style(self) -> Style {
        use AnsiColor::{Blue, BrightBlack, Cyan, Green, Magenta, Red, Yellow};
        let (short, color, symbol, group, urgency) = match self {
            Self::Complete      => ("done",  Green,       '✓', Group::Complete,   13),
            Self::Running       => ("run",   Cyan,        '▸', Group::Flight,     8),
            Self::Pending       => ("pend",  Blue,        '…', Group::Flight,     9),
            Self::ForeignJob    => ("fgn",   Magenta,     '⇄', Group::Flight,     3),
            Self::Due           => ("due",   Yellow,      '•', Group::Ready,      7),
            Self::Limit         => ("limit", BrightBlack, '≡', Group::Ready,      6),
            Self::Paused        => ("pause", Magenta,     '‖', Group::Waiting,    5),
            Self::Waiting       => ("wait",  BrightBlack, '·', Group::Waiting,    11),
            Self::Blocked       => ("block", Red,         '⊘', Group::Blocked,    2),
            Self::Failed        => ("fail",  Red,         '✗', Group::Failed,     0),
            Self::Unreadable    => ("unrd",  Red,         '!', Group::Unreadable, 1),
            Self::NoDicom       => ("nodcm", BrightBlack, '∅', Group::Lacking,    12),
            Self::Settling      => ("settl", BrightBlack, '~', Group::Ready,      10),
            Self::FewDicom      => ("few",   Magenta,     '△', Group::Lacking,    4),
            Self::NotApplicable => ("n/a",   BrightBlack, '–', Group::Out,        14),
            Self::Excluded      => ("excl",  BrightBlack, '–', Group::Out,        15),
            Self::NotSelected   => ("nsel",  BrightBlack, '–', Group::Out,        16),
        };
        Style { short, color, symbol, group, urgency }
    }

    pub fn is_in_flight(self) -> bool {
        matches!(self, Self::Running | Self::Pending)
    }

    /// True if the task will not proceed automatically.
    pub fn is_stuck(self) -> bool {
        matches!(self, Self::Failed | Self::Blocked | Self::Unreadable)
    }
}

impl Group {
    pub fn title(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Flight => "In flight",
            Self::Ready => "Due",
            Self::Waiting => "Waiting",
            Self::Blocked => "Blocked",
            Self::Failed => "Failed",
            Self::Unreadable => "Unreadable",
            Self::Lacking => "Input missing",
            Self::Out => "Left out",
        }
    }

    pub fn states(self) -> impl Iterator<Item = TaskState> {
        let all = TaskState::ALL.into_iter();
        all.filter(move |state| state.style().group == self)
    }
}

/// A cell without its reason.
pub fn first_word(cell: &str) -> &str {
    cell.split_once(' ').map_or(cell, |(word, _)| word)
}

/// The short word of a cell that begins with a state. Other texts stay unchanged.
pub fn short_cell(cell: &str) -> &str {
    TaskState::of_cell(cell).map_or(cell, |state| state.style().short)
}

/// The tasks of one procedure, counted by state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub procedure: Arc<str>,
    pub counts: BTreeMap<TaskState, usize>,
}

impl Tally {
    pub fn count(&self, state: TaskState) -> usize {
        self.counts.get(&state).copied().unwrap_or_default()
    }

    pub fn all(&self) -> usize {
        self.counts.values().sum()
    }

    /// The part after `3/6`, such as `complete, 2 running, 1 failed`.
    pub fn text(&self) -> String {
        let others = self.counts.iter();
        let others = others.filter(|(state, _)| **state != TaskState::Complete);
        let others = others.map(|(state, count)| format!(", {count} {state}"));
        format!("complete{}", others.collect::<String>())
    }
}

/// Such as `fmriprep: 3/6 complete, 2 running, 1 failed`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, all, text) = (&self.procedure, self.all(), self.text());
        write!(
            f,
            "{name}: {}/{all} {text}",
            self.count(TaskState::Complete)
        )
    }
}

/// Counts the tasks of each procedure that has any, except excluded, unselected and inapplicable ones.
/// `rows` are those after the submissions of this pass.
pub fn tallies(manifest: &Manifest, rows: &State, dag: &ProcedureDag) -> Vec<Tally> {
    let states = manifest.tasks.iter().map(|task| {
        let row = rows.get(&task.key).filter(|row| row.is_in_flight());
        let state = match (&task.decision, row) {
            (Decision::Submit(_), Some(row)) => TaskState::of_status(row.status),
            (decision, _) => TaskState::of(decision),
        };
        (task.procedure, state)
    });
    let states = states.filter(|(_, state)| state.style().group != Group::Out);
    let mut tallies = count_states(states, dag);
    tallies.retain(|tally| tally.all() > 0);
    tallies
}

/// Counts tasks by state, for each procedure of the configuration.
pub fn count_states(
    tasks: impl Iterator<Item = (ProcedureId, TaskState)>,
    dag: &ProcedureDag,
) -> Vec<Tally> {
    let tallies = dag.iter().map(|(_, procedure)| Tally {
        procedure: Arc::clone(&procedure.name),
        counts: BTreeMap::new(),
    });
    let mut tallies: Vec<Tally> = tallies.collect();
    for (procedure, state) in tasks {
        if let Some(tally) = tallies.get_mut(procedure.index()) {
            *tally.counts.entry(state).or_default() += 1;
        }
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn short_words_urgencies_and_symbols_are_distinct() {
        let styles = TaskState::ALL.map(TaskState::style);
        let shorts: BTreeSet<_> = styles.iter().map(|style| style.short).collect();
        let ranks: BTreeSet<_> = styles.iter().map(|style| style.urgency).collect();
        assert_eq!((shorts.len(), ranks.len()), (styles.len(), styles.len()));
        assert!(styles.iter().all(|style| style.short.len() <= 5));
        // The states of this group share one symbol.
        let kept = styles.iter().filter(|style| style.group != Group::Out);
        let symbols: Vec<char> = kept.map(|style| style.symbol).collect();
        let distinct: BTreeSet<_> = symbols.iter().collect();
        assert_eq!(distinct.len(), symbols.len());
    }
}
