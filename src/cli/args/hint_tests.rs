//! Checks that commands quoted in texts are valid.
#![expect(clippy::disallowed_methods, reason = "reads the sources")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::Cli;

const PROGRAM: &str = "snbb-scheduler ";

/// Collects the sources and pages that may quote commands, without tests.
fn texts(dir: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" && name != "snapshots" {
            texts(&path, ending, found);
        } else if name.ends_with(ending) && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

/// The texts between back quotes on one line; a continued string counts as one line.
fn quoted(text: &str) -> Vec<String> {
    let joined = regex::Regex::new(r"\\\n\s*").unwrap();
    let text = joined.replace_all(text, "");
    let quotes = regex::Regex::new("`([^`\n]+)`").unwrap();
    (text.lines())
        .filter(|line| !line.trim_start().starts_with("```"))
        .flat_map(|line| quotes.captures_iter(line).map(|found| found[1].to_owned()))
        .collect()
}

/// The words of a command, if a text is one: with the program's name, or a command with an option.
fn command(text: &str) -> Option<Vec<String>> {
    let rest = match text.strip_prefix(PROGRAM) {
        Some(rest) => rest,
        None => {
            let (first, options) = text.split_once(' ')?;
            let is_command = Cli::command()
                .get_subcommands()
                .any(|command| command.get_name() == first);
            (is_command && options.contains("--")).then_some(text)?
        }
    };
    // A format placeholder can be any word.
    let braces = regex::Regex::new(r"\{[^}]*\}").unwrap();
    let rest = braces.replace_all(rest, "x");
    let quoted = regex::Regex::new("\"[^\"]*\"").unwrap();
    let rest = quoted.replace_all(&rest, "x");
    let first = rest.split(" && ").next().unwrap_or_default();
    Some(first.split_whitespace().map(str::to_owned).collect())
}

/// True if a text shows the syntax of a command: `logs SUBJECT`, `--older-than TIME`, `[--yes]`, `...`.
fn is_syntax(words: &[String]) -> bool {
    words.iter().any(|word| {
        let is_placeholder = word.bytes().all(|b| b.is_ascii_uppercase());
        is_placeholder || word.contains(['[', '|', '$', '<', '>']) || word.contains("...")
    })
}

#[test]
fn commands_that_texts_name_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("README.md")];
    texts(&root.join("src"), ".rs", &mut files);
    texts(&root.join("docs"), ".md", &mut files);
    let (mut checked, mut wrong) = (0, Vec::new());
    for file in files {
        for text in quoted(&fs::read_to_string(&file).unwrap()) {
            let Some(words) = command(&text).filter(|words| !is_syntax(words)) else {
                continue;
            };
            // The book also mentions commands and options without their arguments.
            let is_mention = file.extension().is_some_and(|ending| ending == "md")
                && !file.ends_with("troubleshooting.md")
                && (words.len() == 1 || !text.starts_with(PROGRAM));
            if is_mention || words.first().is_some_and(|word| word == "local-supervise") {
                continue;
            }
            checked += 1;
            let line = ["snbb-scheduler".to_owned()].into_iter().chain(words);
            let Err(error) = Cli::try_parse_from(line) else {
                continue;
            };
            if error.exit_code() != 0 {
                wrong.push(format!("{}: `{text}`: {error}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 50, "only {checked} commands were found");
}
