//! Is the set-up of a site sound? Gathers facts about configuration, directories, scripts, Slurm, lock and disk, and
//! judges them: a list of findings, each with what to do. Changes nothing that stays.

/// Holds what one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// What was looked at, a stable word for scripts: `config`, `dicom_root`, `script`, `lock`, ...
    pub topic: &'static str,
    /// The procedure, path or partition that it is about; empty for the site as a whole.
    pub about: String,
    /// One sentence without full stop.
    pub text: String,
    /// What to do; none for what is in order.
    pub advice: Option<String>,
}

/// Says how much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Ok,
    /// Works, and will surprise somebody.
    Warning,
    /// `run` would do nothing, or the wrong thing.
    Error,
}
