//! Questions at a terminal, on stderr; never without one.

use std::io::IsTerminal as _;

use dialoguer::{Input, console::Term, theme::SimpleTheme};

use crate::cli::error::{Failure, Result};
use crate::model::bids::suggest;
use crate::setup::init::InitError;

/// A dialogue; exists only if there is a terminal.
pub(super) struct Asker {
    theme: SimpleTheme,
}

impl Asker {
    /// `None` unless stdin and stderr are terminals and questions are wanted.
    pub(super) fn new(is_silent: bool) -> Option<Self> {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        (is_terminal && !is_silent).then_some(Self { theme: SimpleTheme })
    }

    /// Repeats a question until `check` accepts the answer. Without a default, an answer may be empty if `check` accepts
    /// that. A rejected answer, or the probably intended one, is the default of the next question.
    pub(super) fn text(
        &self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<(), InitError>,
    ) -> Result<String> {
        let ended = |error: &dyn std::fmt::Display| Failure::Usage {
            message: format!("no answer ({error}); nothing was written"),
            hint: "give the answers as options (snbb-scheduler init --help)".to_owned(),
        };
        let mut default = default.map(str::to_owned);
        loop {
            let input = Input::<String>::with_theme(&self.theme).with_prompt(question);
            let input = match &default {
                Some(default) => input.default(default.clone()),
                None => input.allow_empty(true),
            };
            let answer = input.interact_text().map_err(|error| ended(&error))?;
            let answer = answer.trim();
            let Err(rejected) = check(answer) else {
                return Ok(answer.to_owned());
            };
            let line = format!("error: {}", rejected.in_dialogue());
            let shown = Term::stderr().write_line(&line);
            shown.map_err(|error| ended(&error))?;
            let typed = Some(answer.to_owned()).filter(|answer| !answer.is_empty());
            default = rejected.suggestion.or(typed).or(default);
        }
    }

    /// Asks for one of several words, or its number in the list.
    pub(super) fn one_of(&self, question: &str, words: &[&str], default: &str) -> Result<String> {
        let answer = self.text(question, Some(default), |answer| {
            if words.contains(&picked(words, answer)) {
                return Ok(());
            }
            let hint = format!("choose one of {}", words.join(", "));
            let nearest = suggest::nearest(answer, words.iter().copied()).unwrap_or(default);
            let error = InitError::wrong("", "unknown answer", hint);
            Err(error.suggesting(Some(nearest.to_owned())))
        })?;
        Ok(picked(words, &answer).to_owned())
    }

    pub(super) fn agrees(&self, question: &str) -> Result<bool> {
        let answer = self.text(
            &format!("{question} (yes or no)"),
            Some("yes"),
            |answer| match ["y", "yes", "n", "no"].contains(&&*answer.to_lowercase()) {
                true => Ok(()),
                false => Err(InitError::wrong("", "unknown answer", "yes or no")),
            },
        )?;
        Ok(answer.to_lowercase().starts_with('y'))
    }
}

/// The word that a number names, counted from 1; any other answer unchanged.
pub(super) fn picked<'a>(words: &[&'a str], answer: &'a str) -> &'a str {
    let number = answer.parse::<usize>().ok();
    let at = number.and_then(|number| number.checked_sub(1));
    at.and_then(|at| words.get(at)).copied().unwrap_or(answer)
}
