//! Questions at a terminal, on stderr; never without one.

use std::io::IsTerminal as _;

use dialoguer::{Confirm, Input, console::Term, theme::SimpleTheme};

use crate::cli::error::{Failure, Result};
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
    /// that.
    pub(super) fn text(
        &self,
        question: &str,
        default: Option<&str>,
        check: impl Fn(&str) -> Result<(), InitError>,
    ) -> Result<String> {
        loop {
            let input = Input::<String>::with_theme(&self.theme).with_prompt(question);
            let input = match default {
                Some(default) => input.default(default.to_owned()),
                None => input.allow_empty(true),
            };
            let answer = input.interact_text().map_err(ended)?;
            let answer = answer.trim();
            let Err(rejected) = check(answer) else {
                return Ok(answer.to_owned());
            };
            let line = format!("error: {}", rejected.in_dialogue());
            Term::stderr().write_line(&line).map_err(ended)?;
        }
    }

    /// Asks for one of several words, or its number in the list.
    pub(super) fn one_of(&self, question: &str, words: &[&str], default: &str) -> Result<String> {
        let answer = self.text(question, Some(default), |answer| {
            if words.contains(&picked(words, answer)) {
                return Ok(());
            }
            let hint = format!("choose one of {}", words.join(", "));
            Err(InitError::wrong("", "unknown answer", hint))
        })?;
        Ok(picked(words, &answer).to_owned())
    }

    pub(super) fn agrees(&self, question: &str) -> Result<bool> {
        let confirm = Confirm::with_theme(&self.theme).with_prompt(question);
        let confirm = confirm.default(true).wait_for_newline(true);
        confirm.interact().map_err(ended)
    }
}

fn ended(error: impl std::fmt::Display) -> Failure {
    Failure::usage(
        format!("no answer ({error}); nothing was written"),
        "give the answers as options (snbb-scheduler init --help)",
    )
}

/// The word that a number names, counted from 1; any other answer unchanged.
pub(super) fn picked<'a>(words: &[&'a str], answer: &'a str) -> &'a str {
    let number = answer.parse::<usize>().ok();
    let at = number.and_then(|number| number.checked_sub(1));
    at.and_then(|at| words.get(at)).copied().unwrap_or(answer)
}
