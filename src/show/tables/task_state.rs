//! Where a task stands, as one of a few words: the columns of `session-status`, filters, JSON, metrics and colours
//! all look here.

use anstyle::AnsiColor;

use crate::base::words::words;
use crate::model::state::TaskStatus;

words! {
    /// In the order in which summaries list them.
    pub enum TaskState {
        Complete = "complete",
        Running = "running",
        Pending = "pending",
        ForeignJob = "foreign-job",
        Due = "due",
        Limit = "limit",
        Paused = "paused",
        /// Becomes due on its own.
        Waiting = "waiting",
        /// Does not: what it waits for has failed, cannot be read or applies to no session.
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
    /// What the report shows together.
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

/// How a standing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Five letters at most, for narrow terminals.
    pub short: &'static str,
    pub color: AnsiColor,
    /// One column wide.
    pub symbol: char,
    pub group: Group,
    /// The least is what needs a person most.
    pub urgency: u8,
}

impl TaskState {
    /// The standing that has the same word as a row's status.
    pub fn of_status(status: TaskStatus) -> Self {
        match status {
            TaskStatus::Pending => Self::Pending,
            TaskStatus::Running => Self::Running,
            TaskStatus::Complete => Self::Complete,
            TaskStatus::Failed => Self::Failed,
        }
    }

    /// The standing whose word, long or short, a cell begins with.
    pub fn of_cell(cell: &str) -> Option<Self> {
        let word = first_word(cell);
        let mut all = Self::ALL.into_iter();
        all.find(|standing| word == standing.as_str() || word == standing.look().short)
    }

    #[rustfmt::skip]
    pub fn look(self) -> Look {
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
        Look { short, color, symbol, group, urgency }
    }

    pub fn is_in_flight(self) -> bool {
        matches!(self, Self::Running | Self::Pending)
    }

    /// True if it does not go on without a person.
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
            Self::Lacking => "Lack input",
            Self::Out => "Left out",
        }
    }

    pub fn standings(self) -> impl Iterator<Item = TaskState> {
        let all = TaskState::ALL.into_iter();
        all.filter(move |standing| standing.look().group == self)
    }

    /// True if it is shown although it is empty.
    pub fn is_always_shown(self) -> bool {
        self < Self::Unreadable
    }
}

/// A cell without its reason.
pub fn first_word(cell: &str) -> &str {
    cell.split_once(' ').map_or(cell, |(word, _)| word)
}

/// The short word for a cell that begins with a standing; what follows it goes. Other texts stay as they are.
pub fn short_cell(cell: &str) -> &str {
    TaskState::of_cell(cell).map_or(cell, |standing| standing.look().short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn short_words_and_urgencies_differ_and_symbols_do_within_what_is_kept() {
        let looks = TaskState::ALL.map(TaskState::look);
        let shorts: BTreeSet<_> = looks.iter().map(|look| look.short).collect();
        let ranks: BTreeSet<_> = looks.iter().map(|look| look.urgency).collect();
        assert_eq!((shorts.len(), ranks.len()), (looks.len(), looks.len()));
        assert!(looks.iter().all(|look| look.short.len() <= 5));
        let kept = looks.iter().filter(|look| look.group != Group::Out);
        let symbols: Vec<char> = kept.map(|look| look.symbol).collect();
        let distinct: BTreeSet<_> = symbols.iter().collect();
        assert_eq!(distinct.len(), symbols.len());
    }
}
