//! Questions to a person at a terminal, on stderr. Never where there is none.

use std::io::IsTerminal as _;

use dialoguer::{Input, theme::SimpleTheme};

use crate::cli::error::Failure;

/// Asks. In hand only if somebody can answer.
pub struct Asker {
    theme: SimpleTheme,
}

impl Asker {
    /// Returns one if stdin and stderr are a terminal, and questions are wanted.
    pub fn new(is_silent: bool) -> Option<Self> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        (is_terminal && !is_silent).then_some(Self { theme: SimpleTheme })
    }

    /// Asks until `check` has nothing against the answer. Without a default, an answer may be empty if `check`
    /// takes it.
    pub fn text(
        &self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Result<String, Failure> {
        let mut input = Input::<String>::with_theme(&self.theme)
            .with_prompt(question)
            .validate_with(|answer: &String| check(answer.trim()));
        input = match default {
            Some(default) => input.default(default.to_owned()),
            None => input.allow_empty(true),
        };
        let answer = input.interact_text().map_err(|error| Failure::Usage {
            message: format!("the dialogue ended ({error}); nothing was written"),
            hint: "give the answers as options (snbb-scheduler init --help)".to_owned(),
        })?;
        Ok(answer.trim().to_owned())
    }

    /// Asks for one of some words.
    pub fn one_of(
        &self,
        question: &str,
        words: &[&str],
        default: Option<&str>,
    ) -> Result<String, Failure> {
        self.text(question, default, |answer| {
            if words.contains(&answer) {
                Ok(())
            } else {
                Err(format!("one of: {}", words.join(", ")))
            }
        })
    }

    pub fn agrees(&self, question: &str) -> Result<bool, Failure> {
        let is_word = |answer: &str| {
            let answer = answer.to_lowercase();
            ["y", "yes", "n", "no"].contains(&answer.as_str())
        };
        let answer = self.text(&format!("{question} (yes or no)"), Some("yes"), |answer| {
            if is_word(answer) {
                Ok(())
            } else {
                Err("yes or no".to_owned())
            }
        })?;
        Ok(answer.to_lowercase().starts_with('y'))
    }
}
