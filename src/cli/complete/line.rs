//! The content of a command line that is still being typed: the study and the subjects it names.
//!
//! Pure. The words come as the shell splits them: not expanded, and bash splits `--config=x` in three.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Command, CommandFactory as _};

use crate::cli::args::Cli;
use crate::model::bids::{SessionLabel, SubjectLabel};

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Value of `--config` as typed.
    pub config: Option<PathBuf>,
    /// Named subjects, with their prefix.
    pub subjects: Vec<String>,
    /// All words that are neither options nor their values, the command first.
    pub words: Vec<String>,
    /// Whether the word being typed begins with `-`.
    pub begins_option: bool,
}

impl Line {
    /// Parses the arguments of a request for candidates: the program, `--`, then the line. `typed`: position of the word
    /// being typed, which names nothing yet; by default the last one.
    pub(super) fn read(arguments: &[OsString], typed: Option<usize>) -> Self {
        let after = arguments.iter().position(|word| word == "--");
        let line = after.map_or(&[][..], |at| arguments.get(at + 1..).unwrap_or_default());
        let typed = typed.unwrap_or(line.len().saturating_sub(1));
        let words = line.iter().enumerate().skip(1);
        let words = words.filter(|(at, _)| *at != typed);
        Self {
            begins_option: line
                .get(typed)
                .is_some_and(|word| plain(word).starts_with('-')),
            ..Self::of_words(words.map(|(_, word)| word))
        }
    }

    fn of_words<'a>(line: impl Iterator<Item = &'a OsString>) -> Self {
        let mut found = Self::default();
        let mut bare = Vec::new();
        let mut words = line.map(|word| plain(word)).peekable();
        let with_value = options_with_value();
        while let Some(word) = words.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with('-') => {
                    (option.to_owned(), Some(value.to_owned()))
                }
                _ => (word.clone(), None),
            };
            if !word.starts_with('-') {
                if word != "=" && !word.is_empty() {
                    bare.push(word);
                }
                continue;
            }
            let value = match value {
                Some(value) if !value.is_empty() => Some(value),
                _ if with_value.contains(&option) => {
                    words.next_if(|word| word == "=");
                    words.next_if(|word| !word.starts_with('-'))
                }
                other => other,
            };
            match (option.as_str(), value) {
                ("--config", Some(value)) => found.config = Some(PathBuf::from(value)),
                ("--subject", Some(value)) => found.subjects.push(value),
                _ => {}
            }
        }
        // In `explain 0001`, the first word after the command names a subject, with or without prefix.
        if found.subjects.is_empty() {
            let named = |word: &&String| word.starts_with(SubjectLabel::PREFIX);
            let rest = bare.get(1..).unwrap_or_default();
            found
                .subjects
                .extend(rest.iter().find(named).or(rest.first()).cloned());
        }
        for subject in &mut found.subjects {
            if !subject.starts_with(SubjectLabel::PREFIX) {
                subject.insert_str(0, SubjectLabel::PREFIX);
            }
        }
        found.words = bare;
        found
    }

    /// True if a word is certainly a session.
    pub(super) fn names_session(&self) -> bool {
        self.words
            .iter()
            .any(|word| SessionLabel::new(word).is_ok())
    }
}

/// Spellings of the options that take a value.
fn options_with_value() -> BTreeSet<String> {
    let root = Cli::command();
    let commands = std::iter::once(&root).chain(root.get_subcommands());
    let options = commands.flat_map(Command::get_arguments);
    let options = options.filter(|option| option.get_action().takes_values());
    let names = options.flat_map(|option| {
        let long = option.get_long().map(|name| format!("--{name}"));
        long.into_iter()
            .chain(option.get_short().map(|name| format!("-{name}")))
    });
    names.collect()
}

/// A word without surrounding quotes.
fn plain(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let inner = ['"', '\'']
        .into_iter()
        .find_map(|quote| Some(text.strip_prefix(quote)?.trim_end_matches(quote)));
    inner.unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_parsed_as_shells_split_it() {
        for (line, config, subjects) in [
            ("", None, ""),
            ("status --subject sub-1", None, "sub-1"),
            ("status --subject 1 --subject=2", None, "sub-1 sub-2"),
            ("status --subject = 1", None, "sub-1"),
            ("--config c.yaml status", Some("c.yaml"), ""),
            ("--config=c.yaml status", Some("c.yaml"), ""),
            (
                "--config = 'c.yaml' explain 0001",
                Some("c.yaml"),
                "sub-0001",
            ),
            ("--config", None, ""),
            ("--config --subject", None, ""),
            ("explain 0001 ses-1", None, "sub-0001"),
            ("explain ses-1 sub-7", None, "sub-7"),
            ("logs -n 5 0001", None, "sub-0001"),
            ("-v logs --follow 0001", None, "sub-0001"),
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let read = Line::of_words(words.iter());
            assert_eq!(
                read.config.as_deref(),
                config.map(std::path::Path::new),
                "{line}"
            );
            assert_eq!(read.subjects.join(" "), subjects, "{line}");
        }
    }

    #[test]
    fn the_words_begin_after_the_program_of_the_line() {
        let words = ["/bin/it", "--", "it", "explain", "1", "ses-1"].map(OsString::from);
        assert_eq!(Line::read(&words, None).words, ["explain", "1"]);
        assert_eq!(Line::read(&words, Some(4)).words, ["explain", "1", "ses-1"]);
        assert_eq!(Line::read(&words, Some(2)).words, ["explain", "ses-1"]);
        assert_eq!(Line::read(&words[..1], None), Line::default());
    }
}
