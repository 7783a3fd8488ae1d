//! The time limits of a pass: of each command, and of all together.

use std::time::{Duration, Instant};

/// The limits. Without a deadline, only those of each command apply.
#[derive(Debug)]
pub(super) struct TimeLeft {
    pub(super) submit: Duration,
    pub(super) query: Duration,
    end: Option<Instant>,
    /// Programs that did not answer in time in this pass.
    silent: Vec<String>,
}

impl TimeLeft {
    pub(super) fn new(submit: Duration, query: Duration) -> Self {
        Self {
            submit,
            query,
            end: None,
            silent: Vec::new(),
        }
    }

    /// Begins a pass that may take this long.
    pub(super) fn set(&mut self, left: Duration) {
        self.end = Instant::now().checked_add(left);
        self.silent.clear();
    }

    /// The limit of a submission that starts now; `None` if it must not start.
    pub(super) fn for_submission(&self) -> Option<Duration> {
        self.within(self.submit)
    }

    /// The limit of a query that starts now, or why it must not start.
    pub(super) fn for_query(&self, program: &str) -> Result<Duration, String> {
        if self.silent.iter().any(|silent| silent == program) {
            return Err(format!(
                "{program} was not asked again because it did not answer in time before"
            ));
        }
        self.within(self.query)
            .ok_or_else(|| format!("{program} was not asked: no time left in this pass"))
    }

    /// Records that a program did not answer in time, so that a pass does not wait for it twice.
    pub(super) fn note_silence(&mut self, program: &str) {
        if self.end.is_some() {
            self.silent.push(program.to_owned());
        }
    }

    fn within(&self, limit: Duration) -> Option<Duration> {
        let left = match self.end {
            Some(end) => end.saturating_duration_since(Instant::now()).min(limit),
            None => limit,
        };
        Some(left).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_has_its_own_limit_or_what_is_left() {
        let mut time = TimeLeft::new(3 * MINUTE, MINUTE);
        assert_eq!(time.for_submission(), Some(3 * MINUTE));
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
        time.set(2 * MINUTE);
        assert!(time.for_submission().is_some_and(|left| left <= 2 * MINUTE));
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
        time.set(Duration::ZERO);
        assert_eq!(time.for_submission(), None);
        assert!(time.for_query("squeue").is_err());
        time.set(Duration::MAX);
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
    }

    #[test]
    fn a_silent_program_is_asked_again_in_the_next_pass_only() {
        let mut time = TimeLeft::new(MINUTE, MINUTE);
        time.note_silence("sacct");
        assert!(time.for_query("sacct").is_ok(), "there is no pass yet");
        time.set(MINUTE);
        time.note_silence("sacct");
        assert!(time.for_query("sacct").is_err());
        assert!(time.for_query("squeue").is_ok());
        time.set(MINUTE);
        assert!(time.for_query("sacct").is_ok());
    }
}
