//! Completion of the command line: `completions` prints a shell script, which starts the program again with the words so
//! far. ([`crate::gather::completion`] is about outputs.)
//!
//! Must never print an error, take long or write: a slow or broken study has no candidates.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::{CompleteEnv, Shells};

use super::args::{Cli, CompletionsArgs};
use super::{Config, Exit, Printer, Result, sys};
use crate::config::load::choose;
use crate::config::{self, Overrides, paths};
use crate::gather::sessions::discover::discover;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::setup::catalogue;
use crate::store::state_file::Store;

/// Variable with which the shell requests candidates. Not the usual `COMPLETE`: a variable of that name in someone's
/// environment must not keep cron's `run` from running.
const VARIABLE: &str = "_SNBB_SCHEDULER_COMPLETE";
const PROGRAM: &str = "snbb-scheduler";

/// Prints the script, which stays valid when the study changes.
pub(super) fn run(args: &CompletionsArgs, printer: &mut Printer) -> Result<Exit> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        return Ok(Exit::Done);
    };
    // The script starts the name if it was found on `PATH`, else the absolute path.
    let called = std::env::args_os().next().unwrap_or_default();
    let is_path = called.as_encoded_bytes().contains(&b'/');
    let path = std::path::absolute(&called).ok().filter(|_| is_path);
    let path = path.map(|path| path.to_string_lossy().into_owned());
    let program = path.as_deref().unwrap_or(PROGRAM);
    let mut script = Vec::new();
    // Writing to memory cannot fail.
    let _ = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, program, &mut script);
    printer.data(&script);
    Ok(Exit::Done)
}

/// A kind of candidates: the prefix of its names, and the names.
type Kind = (&'static str, fn(&Study) -> BTreeSet<String>);

const SUBJECT: Kind = (SubjectLabel::PREFIX, Study::subjects);
const SESSION: Kind = (SessionLabel::PREFIX, Study::sessions);
const PROCEDURE: Kind = ("", Study::procedures);
/// An app of the catalogue.
const APP: Kind = ("", |_| {
    catalogue::apps()
        .iter()
        .map(|app| app.name.to_owned())
        .collect()
});

/// Answers a shell that requests candidates; true if one did.
pub(super) fn answer() -> bool {
    let words: Vec<OsString> = std::env::args_os().collect();
    let working_dir = std::env::current_dir().ok();
    // bash and zsh pass the position of the cursor.
    let typed = sys::env("_CLAP_COMPLETE_INDEX").and_then(|at| at.to_str()?.parse().ok());
    let factory = || {
        let study = Arc::new(Study::new(&words, typed));
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
    let hides_options = !study.begins_option && offers_words(&command, study);
    let command = command.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || hides_options && !arg.is_positional();
        let arg = arg.hide(is_hidden);
        let Some(kinds) = kinds(&arg, is_init) else {
            return arg;
        };
        let study = Arc::clone(study);
        let complete = move |current: &OsStr| candidates(&study, kinds, current);
        arg.add(ArgValueCompleter::new(complete))
    });
    command.mut_subcommands(|command| {
        let is_hidden = command.is_hide_set() || command.get_name() == "help";
        with_completers(command.hide(is_hidden), study)
    })
}

/// True if there are candidates besides options. Without others, clap offers all options, even hidden ones.
fn offers_words(command: &Command, study: &Study) -> bool {
    let mut positionals = command.get_positionals();
    if positionals.any(|arg| arg.get_id() == "subject") {
        let is_typed = study.words.iter().any(|word| word == command.get_name());
        let kinds = [SUBJECT, SESSION, PROCEDURE];
        return is_typed && !candidates(study, &kinds, OsStr::new("")).is_empty();
    }
    command.has_subcommands() || command.get_positionals().next().is_some()
}

fn kinds(arg: &Arg, is_init: bool) -> Option<&'static [Kind]> {
    Some(match arg.get_id().as_str() {
        "subjects" | "subject" => &[SUBJECT],
        "sessions" => &[SESSION],
        "procedures" if is_init => &[APP],
        "procedures" => &[PROCEDURE],
        // The words that name a task may come in any order.
        "session" => &[SESSION, PROCEDURE],
        "procedure" => &[PROCEDURE, SESSION],
        "like" => &[SUBJECT, SESSION, PROCEDURE],
        _ => return None,
    })
}

/// The study's names of these kinds, except kinds already on the line.
fn candidates(study: &Study, kinds: &[Kind], current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    // A single kind means an option, which may be repeated.
    let is_option = kinds.len() == 1;
    let is_on_line = |name: &String| !is_option && study.words.contains(name);
    let mut found = Vec::new();
    for (prefix, names) in kinds {
        let names = names(study);
        if *prefix == SubjectLabel::PREFIX || !names.iter().any(is_on_line) {
            found.extend(fitting(prefix, current, &names));
        }
    }
    found.into_iter().map(CompletionCandidate::new).collect()
}

/// The labels that begin with the typed text, with the prefix, or without it if it is typed without.
fn fitting(prefix: &str, current: &str, labels: &BTreeSet<String>) -> Vec<String> {
    let begin = |prefix: &str| -> Vec<String> {
        let labels = labels.iter().filter_map(|label| label.strip_prefix(prefix));
        let fitting = labels.filter(|label| label.starts_with(current));
        fitting.map(str::to_owned).collect()
    };
    let with = begin("");
    if with.is_empty() { begin(prefix) } else { with }
}

/// Time limit, so that a hanging file system does not block the terminal.
const TIME_LIMIT: Duration = Duration::from_millis(1500);

/// Subject and session.
type Labels = (String, String);

/// The line that is still being typed, and its study. Everything is read at most once, and only if needed.
struct Study {
    /// Without the word being typed, which names nothing yet.
    words: Vec<String>,
    /// Whether the word being typed begins with `-`.
    begins_option: bool,
    begin: Instant,
    config: OnceLock<Option<Arc<Config>>>,
    labels: OnceLock<Vec<Labels>>,
}

impl Study {
    /// Parses the arguments of a request for candidates: the program, `--`, then the line as the shell splits it. `typed`:
    /// position of the word being typed; by default the last one.
    fn new(arguments: &[OsString], typed: Option<usize>) -> Self {
        let line = arguments.iter().skip_while(|word| *word != "--").skip(1);
        let line = line.map(|word| word.to_string_lossy().trim_matches(['"', '\'']).to_owned());
        let mut words: Vec<String> = line.collect();
        let typed = typed.unwrap_or(words.len().saturating_sub(1));
        let word = (typed < words.len()).then(|| words.remove(typed));
        Self {
            words,
            begins_option: word.is_some_and(|word| word.starts_with('-')),
            begin: Instant::now(),
            config: OnceLock::new(),
            labels: OnceLock::new(),
        }
    }

    /// Value of `--config` as typed. bash splits `--config=x` in three.
    fn config_file(&self) -> Option<&str> {
        let words = self.words.iter().map(|word| word.as_str());
        let mut words = words.skip_while(|word| !word.starts_with("--config"));
        let value = words.next()?.strip_prefix("--config=");
        value.or_else(|| words.find(|word| *word != "="))
    }

    fn subjects(&self) -> BTreeSet<String> {
        let labels = self.labels().iter();
        labels.map(|(subject, _)| subject.clone()).collect()
    }

    /// Sessions of the subjects on the line, if any, else all.
    fn sessions(&self) -> BTreeSet<String> {
        let is_named = |(subject, _): &&Labels| {
            let label = subject.strip_prefix(SubjectLabel::PREFIX);
            let mut words = self.words.iter();
            words.any(|word| word == subject || label == Some(word))
        };
        let names_any = self.labels().iter().any(|labels| is_named(&labels));
        let labels = self.labels().iter();
        let labels =
            labels.filter(|labels| !labels.1.is_empty() && (!names_any || is_named(labels)));
        labels.map(|(_, session)| session.clone()).collect()
    }

    fn procedures(&self) -> BTreeSet<String> {
        let config = self.config().into_iter();
        let procedures = config.flat_map(|config| config.procedures.iter());
        procedures.map(|(_, one)| one.name.to_string()).collect()
    }

    fn config(&self) -> Option<&Arc<Config>> {
        let load = || {
            // The shell has not expanded `~` yet.
            let file = self.config_file();
            let file = file.and_then(|file| paths::expand(file, &sys::env).ok());
            let file = choose(file.map(PathBuf::from), &sys::env);
            let dir = std::env::current_dir().unwrap_or_else(|_| "/".into());
            let load =
                move || config::load(file.as_deref(), &sys::env, &Overrides::default(), &dir);
            Some(Arc::new(self.in_time(load)?.ok()?.0))
        };
        self.config.get_or_init(load).as_ref()
    }

    /// The labels on record and in the data, each as far as they are found in time.
    fn labels(&self) -> &[Labels] {
        self.labels.get_or_init(|| {
            let Some(config) = self.config() else {
                return Vec::new();
            };
            let on_record = |config: &Config| -> Vec<Labels> {
                let state = Store::at(&config.state_file).and_then(|store| store.read());
                let state = state.unwrap_or_default();
                let rows = state.rows().iter();
                rows.map(|row| (row.key.subject.to_string(), row.key.session.to_string()))
                    .collect()
            };
            let in_data = |config: &Config| -> Vec<Labels> {
                let found = discover(config).unwrap_or_default();
                let found = found.sessions.iter();
                found
                    .map(|one| (one.subject.to_string(), one.session.to_string()))
                    .collect()
            };
            let sources: [fn(&Config) -> Vec<Labels>; 2] = [on_record, in_data];
            let found = sources.into_iter().filter_map(|source| {
                let config = Arc::clone(config);
                self.in_time(move || source(&config))
            });
            found.flatten().collect()
        })
    }

    /// Does the work in a thread, and gives up after the time limit.
    fn in_time<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(work()));
        let left = TIME_LIMIT.saturating_sub(self.begin.elapsed());
        receiver.recv_timeout(left).ok()
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

    #[test]
    fn the_line_is_parsed_as_shells_split_it() {
        let study = |line: &str, typed| {
            let words = ["/bin/it", "--", "it"].into_iter().chain(line.split(' '));
            Study::new(&words.map(OsString::from).collect::<Vec<_>>(), typed)
        };
        for (line, config) in [
            ("", None),
            ("status --subject sub-1 ", None),
            ("--config c.yaml status ", Some("c.yaml")),
            ("--config=c.yaml status ", Some("c.yaml")),
            ("explain --config=c.yaml 1 ", Some("c.yaml")),
            ("--config = 'c.yaml' explain 0001 ", Some("c.yaml")),
            ("--config ", None),
        ] {
            assert_eq!(study(line, None).config_file(), config, "{line}");
        }
        for (typed, expected) in [
            (None, &["it", "explain", "1"][..]),
            (Some(4), &["it", "explain", "1", "ses-1"]),
            (Some(2), &["it", "explain", "ses-1"]),
        ] {
            assert_eq!(study("explain 1 ses-1", typed).words, expected);
        }
        assert!(Study::new(&["it".into()], None).words.is_empty());
        // Only the sessions of subjects on the line are offered.
        for (line, expected) in [
            ("status --subject 1 ", "ses-1"),
            ("status --subject sub-2 ", "ses-2"),
            ("explain 1 ses-", "ses-1"),
            ("retry --like sub-1 ", "ses-1"),
            ("logs -n 5 2 ", "ses-2"),
            ("cancel ", "ses-1 ses-2"),
        ] {
            let study = study(line, None);
            let labels = [("sub-1", "ses-1"), ("sub-2", "ses-2"), ("sub-3", "")];
            let labels = labels.map(|(subject, session)| (subject.to_owned(), session.to_owned()));
            study.labels.set(labels.into()).unwrap();
            let sessions: Vec<String> = study.sessions().into_iter().collect();
            assert_eq!(sessions.join(" "), expected, "{line}");
        }
    }

    /// A renamed option must not silently lose its candidates.
    #[test]
    fn every_selection_of_every_command_is_completed() {
        let study = Arc::new(Study::new(&[], None));
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
                    || !arg.get_possible_values().is_empty();
                if is_wanted && !is_answered {
                    bare.push(format!("{} {}", command.get_name(), arg.get_id()));
                }
            }
        }
        assert_eq!(bare, [""; 0]);
    }
}
