//! Completion of the command line while it is typed: the shell calls the program with the words so far.
//! ([`crate::gather::completion`] is about outputs.)
//!
//! Must never print an error, never take long and never write: a slow or broken study simply has no
//! candidates. What is on the line is read by [`line`], what the study holds by [`found`].

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

/// The variable by which the shell asks for candidates. Not the usual `COMPLETE`: a variable of that name
/// in somebody's environment must not keep cron's `run` from running.
pub const VARIABLE: &str = "_SNBB_SCHEDULER_COMPLETE";

/// Says what may stand at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Subject,
    Session,
    Procedure,
}

/// Answers a shell that asks for candidates. True: that was all that this call was for.
pub fn answer() -> bool {
    let words: Vec<OsString> = std::env::args_os().collect();
    let working_dir = std::env::current_dir().ok();
    // bash and zsh say where the cursor is.
    let typed = sys::env("_CLAP_COMPLETE_INDEX").and_then(|at| at.to_str()?.parse().ok());
    let factory = || {
        let study = Arc::new(Study::new(Line::read(&words, typed), working_dir.clone()));
        let mut command = Cli::command();
        // What every command has by itself (--help) is to be dressed too.
        command.build();
        dress(command, &study)
    };
    // Whatever went wrong, the shell is told nothing: it would stand in the middle of what is typed.
    CompleteEnv::with_factory(factory)
        .var(VARIABLE)
        .try_complete(words.clone(), working_dir.as_deref())
        .unwrap_or(true)
}

/// Tells each argument what it can be completed with.
fn dress(command: Command, study: &Arc<Study>) -> Command {
    // Options would drown what a command is about, so they are only shown to those who begin one.
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
        dress(command.hide(is_hidden), study)
    })
}

/// True if something can be offered beside options. clap shows all options, even those that are hidden,
/// where nothing else is left.
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
        // The words that name a task may stand in any order.
        "session" => study(&[Session, Procedure]),
        "procedure" => study(&[Procedure, Session]),
        "like" => study(&[Subject, Session, Procedure]),
        _ => None,
    }
}

/// Returns what the study has of these kinds, but of none that the line names already.
fn candidates(study: &Study, kinds: &[Kind], current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    // One kind: an option, which may be repeated.
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

/// The labels that begin as what is typed, with the prefix, or without if it is typed without.
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
    fn a_label_is_completed_as_it_was_begun() {
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

    /// An option that is renamed must not lose its candidates without a word.
    #[test]
    fn every_selection_of_every_command_is_completed() {
        let study = Arc::new(Study::new(Line::default(), None));
        let command = dress(Cli::command(), &study);
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
