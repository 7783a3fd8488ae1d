//! Reading a configuration file.

/// Holds what the command line overrides.
#[derive(Debug, Clone, Default)]
pub struct Overrides {}
/// All problems of a file.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{} problems", .0.len())]
pub struct ConfigError(pub Vec<Problem>);
/// One problem.
#[derive(Debug, Clone)]
pub struct Problem {}
