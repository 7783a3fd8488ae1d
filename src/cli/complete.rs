//! Completion of the command line: the shell starts the program with the words so far.
//! ([`crate::gather::completion`] is about outputs.)
//!
//! Must never print an error, take long or write: a slow or broken study has no candidates. [`line`] parses the command
//! line, [`found`] reads the study.

mod found;
mod line;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;

use super::args::Cli;
use crate::base::sys;
use crate::setup::catalogue;
use found::Study;
use line::Line;

/// Variable with which the shell requests candidates. Not the usual `COMPLETE`: a variable of that name in someone's
/// environment must not keep cron's `run` from running.
pub const VARIABLE: &str = "_SNBB_SCHEDULER_COMPLETE";

/// Kind of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Subject,
    Session,
    Procedure,
}

/// Answers a shell that requests candidates; true if one did.
pub fn answer() -> bool {
    let words: Vec<OsString> = std::env::args_os().collect();
    let working_dir = std::env::current_dir().ok();
    // bash and zsh pass the position of the cursor.
    let typed = sys::env("_CLAP_COMPLETE_INDEX").and_then(|at| at.to_str()?.parse().ok());
    let factory = || {
        let study = Arc::new(Study::new(Line::read(&words, typed), working_dir.clone()));
        let mut command = Cli::command();
        // Building adds options such as --help, which get completers too.
        command.build();
        with_completers(command, &study)
    };
    // An error message would appear in the middle of the typed line.
    CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .try_complete(words.clone(), working_dir.as_deref())
        .unwrap_or(true)
}

/// Adds its completer to each argument.
fn with_completers(command: Command, study: &Arc<Study>) -> Command {
    // Options would hide the more useful candidates, so they are only offered after a `-`.
    let is_init = command.get_name() == "init";
    let hides_options = !study.line.begins_option && offers_words(&command, study);
    let command = command.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || hides_options && !arg.is_positional();
        let arg = arg.hide(is_hidden);
        match completer(&arg, study) {
            _ if is_init && arg.get_id() == "procedures" => {
                let apps = || catalogue::apps().iter();
                arg.add(ArgValueCandidates::new(move || {
                    apps()
                        .map(|app| CompletionCandidate::new(app.name))
                        .collect()
                }))
            }
            Some(completer) => arg.add(completer),
            None => arg,
        }
    });
    command.mut_subcommands(|command| {
        let is_hidden = command.is_hide_set() || command.get_name() == "help";
        with_completers(command.hide(is_hidden), study)
    })
}

/// True if there are candidates besides options. Without others, clap offers all options, even hidden ones.
fn offers_words(command: &Command, study: &Study) -> bool {
    let names_task = command
        .get_positionals()
        .any(|arg| arg.get_id() == "subject");
    if names_task {
        let is_typed = study
            .line
            .words
            .first()
            .is_some_and(|word| word == command.get_name());
        let kinds = [Kind::Subject, Kind::Session, Kind::Procedure];
        return is_typed && !candidates(study, &kinds, OsStr::new("")).is_empty();
    }
    command.has_subcommands() || command.get_positionals().next().is_some()
}

fn completer(arg: &Arg, study: &Arc<Study>) -> Option<ArgValueCompleter> {
    use Kind::{Procedure, Session, Subject};
    let study = |kinds: &'static [Kind]| {
        let study = Arc::clone(study);
        let complete = move |current: &OsStr| candidates(&study, kinds, current);
        Some(ArgValueCompleter::new(complete))
    };
    match arg.get_id().as_str() {
        "subjects" | "subject" => study(&[Subject]),
        "sessions" => study(&[Session]),
        "procedures" => study(&[Procedure]),
        // The words that name a task may come in any order.
        "session" => study(&[Session, Procedure]),
        "procedure" => study(&[Procedure, Session]),
        "like" => study(&[Subject, Session, Procedure]),
        _ => None,
    }
}

/// The study's names of these kinds, except kinds already on the line.
fn candidates(study: &Study, kinds: &[Kind], current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    // A single kind means an option, which may be repeated.
    let is_option = kinds.len() == 1;
    let mut found = Vec::new();
    for kind in kinds {
        found.extend(match kind {
            Kind::Subject => fitting("sub-", current, study.subjects()),
            Kind::Session if !is_option && study.line.names_session() => Vec::new(),
            Kind::Session => fitting("ses-", current, study.sessions()),
            Kind::Procedure if !is_option && study.names_procedure() => Vec::new(),
            Kind::Procedure => fitting("", current, &study.procedures()),
        });
    }
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// The labels that begin with the typed text, with the prefix, or without it if it is typed without.
fn fitting(prefix: &str, current: &str, labels: &BTreeSet<String>) -> Vec<String> {
    let begin = |labels: &mut dyn Iterator<Item = &str>| -> Vec<String> {
        let fitting = labels.filter(|label| label.starts_with(current));
        fitting.map(str::to_owned).collect()
    };
    match begin(&mut labels.iter().map(String::as_str)) {
        none if none.is_empty() && !prefix.is_empty() => {
            begin(&mut labels.iter().filter_map(|label| label.strip_prefix(prefix)))
        }
        with => with,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_completed_with_or_without_their_prefix() {
        let labels = || {
            ["sub-0001", "sub-0002", "sub-su1"]
                .map(str::to_owned)
                .into()
        };
        for (current, expected) in [
            ("", vec!["sub-0001", "sub-0002", "sub-su1"]),
            ("su", vec!["sub-0001", "sub-0002", "sub-su1"]),
            ("sub-0", vec!["sub-0001", "sub-0002"]),
            ("0", vec!["0001", "0002"]),
            ("0002", vec!["0002"]),
            ("9", vec![]),
        ] {
            assert_eq!(fitting("sub-", current, &labels()), expected, "{current}");
        }
        assert_eq!(fitting("", "b", &["bids".to_owned()].into()), ["bids"]);
        assert!(fitting("", "x", &["bids".to_owned()].into()).is_empty());
    }

    /// A renamed option must not silently lose its candidates.
    #[test]
    fn every_selection_of_every_command_is_completed() {
        let study = Arc::new(Study::new(Line::default(), None));
        let command = with_completers(Cli::command(), &study);
        let mut bare = Vec::new();
        let mut stack: Vec<&Command> = command.get_subcommands().collect();
        while let Some(command) = stack.pop() {
            stack.extend(command.get_subcommands());
            for arg in command.get_arguments() {
                let names = arg.get_value_names().unwrap_or_default();
                let wanted = [
                    "SUBJECT",
                    "SESSION",
                    "PROCEDURE",
                    "LABEL",
                    "STATUS",
                    "REASON",
                    "WORD",
                    "KEY",
                ];
                let is_wanted = names.iter().any(|name| wanted.contains(&name.as_str()))
                    || arg.get_id().as_str().starts_with("procedure");
                let is_answered = arg.get::<ArgValueCompleter>().is_some()
                    || arg.get::<ArgValueCandidates>().is_some()
                    || !arg.get_possible_values().is_empty();
                if is_wanted && !is_answered {
                    bare.push(format!("{} {}", command.get_name(), arg.get_id()));
                }
            }
        }
        assert_eq!(bare, [""; 0]);
    }
}
