//! The content of a command line that is still being typed: the study and the task that it names.
//!
//! Pure. The words come as the shell splits them: not expanded, and bash splits `--config=x` in three.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::CommandFactory as _;

use crate::cli::args::Cli;
use crate::model::bids::SubjectLabel;

/// A parsed command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Value of `--config` as typed.
    pub config: Option<PathBuf>,
    pub command: Option<String>,
    /// Named subjects, with their prefix.
    pub subjects: Vec<String>,
    /// The words that name a task.
    pub words: Vec<String>,
    /// Whether the word being typed begins with `-`.
    pub begins_option: bool,
}

impl Line {
    /// Parses the arguments of a request for candidates: the program, `--`, then the line. `typed`: position of the word
    /// being typed, which names nothing yet; by default the last one.
    pub(super) fn read(arguments: &[OsString], typed: Option<usize>) -> Self {
        let line = arguments.iter().skip_while(|word| *word != "--").skip(1);
        let line: Vec<String> = line
            .map(|word| word.to_string_lossy().trim_matches(['"', '\'']).to_owned())
            .collect();
        let typed = typed.unwrap_or(line.len().saturating_sub(1));
        let begins_option = line.get(typed).is_some_and(|word| word.starts_with('-'));
        let mut words: Vec<String> = Vec::new();
        for (_, word) in line.iter().enumerate().filter(|(at, _)| *at != typed) {
            match words.last_mut() {
                Some(last) if word == "=" || last.ends_with('=') => last.push_str(word),
                _ => words.push(word.clone()),
            }
        }
        let parsed = Cli::command()
            .ignore_errors(true)
            .try_get_matches_from(words)
            .unwrap_or_default();
        let config = parsed.try_get_one::<PathBuf>("config").ok().flatten();
        let mut found = Self {
            config: config.cloned(),
            begins_option,
            ..Self::default()
        };
        let Some((command, parsed)) = parsed.subcommand() else {
            return found;
        };
        let values = |names: &[&str]| -> Vec<String> {
            let values = names.iter().filter_map(|id| parsed.try_get_raw(id).ok()?);
            let values = values.flatten();
            values
                .map(|value| value.to_string_lossy().into_owned())
                .collect()
        };
        found.command = Some(command.to_owned());
        found.words = values(&["subject", "session", "procedure", "like"]);
        found.subjects = values(&["subjects"]);
        // In `explain 0001`, the first word after the command names a subject, with or without prefix.
        if found.subjects.is_empty() {
            let mut words = found.words.iter();
            let named = words.find(|word| word.starts_with(SubjectLabel::PREFIX));
            found
                .subjects
                .extend(named.or(found.words.first()).cloned());
        }
        for subject in &mut found.subjects {
            if !subject.starts_with(SubjectLabel::PREFIX) {
                subject.insert_str(0, SubjectLabel::PREFIX);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, typed: Option<usize>) -> Line {
        let words = ["/bin/it", "--", "it"].into_iter().chain(line.split(' '));
        Line::read(&words.map(OsString::from).collect::<Vec<_>>(), typed)
    }

    #[test]
    fn the_line_is_parsed_as_shells_split_it() {
        for (line, config, subjects) in [
            ("", None, ""),
            ("status --subject sub-1 ", None, "sub-1"),
            ("status --subject 1 --subject=2 ", None, "sub-1 sub-2"),
            ("status --subject = 1 ", None, "sub-1"),
            ("status --subject 1 --session ", None, "sub-1"),
            ("--config c.yaml status ", Some("c.yaml"), ""),
            ("--config=c.yaml status ", Some("c.yaml"), ""),
            ("explain --config=c.yaml 1 ", Some("c.yaml"), "sub-1"),
            (
                "--config = 'c.yaml' explain 0001 ",
                Some("c.yaml"),
                "sub-0001",
            ),
            ("--config ", None, ""),
            ("--config --subject ", None, ""),
            ("explain 0001 ses-1 ", None, "sub-0001"),
            ("explain ses-1 sub-7 ", None, "sub-7"),
            ("retry --like 1 2 ", None, "sub-1"),
            ("logs -n 5 0001 ", None, "sub-0001"),
            ("-v logs --follow 0001 ", None, "sub-0001"),
        ] {
            let read = read(line, None);
            assert_eq!(
                read.config.as_deref(),
                config.map(std::path::Path::new),
                "{line}"
            );
            assert_eq!(read.subjects.join(" "), subjects, "{line}");
        }
    }

    #[test]
    fn the_word_being_typed_names_nothing() {
        for (typed, expected) in [
            (None, &["1"][..]),
            (Some(4), &["1", "ses-1"]),
            (Some(2), &["ses-1"]),
        ] {
            assert_eq!(read("explain 1 ses-1", typed).words, expected);
        }
        assert_eq!(Line::read(&["it".into()], None), Line::default());
    }
}
