//! The pages of the documentation, their fenced blocks, and the commands in these.

use std::fs;
use std::path::Path;

use super::ROOT;

/// Is a fenced block.
pub struct Block {
    pub language: String,
    /// What else its fence says.
    pub remarks: Vec<String>,
    pub line: usize,
    pub text: String,
}

/// Returns the fenced blocks of a page.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // How far the fence is indented, while it is open.
    let mut open: Option<usize> = None;
    for (at, line) in page.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        match (open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                let mut words = info
                    .split([' ', ','])
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned);
                blocks.push(Block {
                    language: words.next().unwrap_or_default(),
                    remarks: words.collect(),
                    line: at + 1,
                    text: String::new(),
                });
                open = Some(indent);
            }
            (Some(_), Some("")) => open = None,
            (Some(indent), _) => {
                if let Some(block) = blocks.last_mut() {
                    block.text.push_str(line.get(indent..).unwrap_or_default());
                    block.text.push('\n');
                }
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is never closed");
    blocks
}

/// Returns README and all pages of the book with their text.
pub fn pages() -> Vec<(String, String)> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in walkdir::WalkDir::new(Path::new(ROOT).join("docs")).sort_by_file_name() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|end| end == "md") {
            pages.push(
                entry
                    .path()
                    .strip_prefix(ROOT)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
    pages
        .into_iter()
        .map(|page| {
            let text = fs::read_to_string(Path::new(ROOT).join(&page)).unwrap();
            (page, text)
        })
        .collect()
}

/// Returns the commands of a console block: what follows `$ `, with lines that a `\` continues.
pub fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        if goes_on {
            let line = line.strip_prefix("> ").unwrap_or(line);
            if let Some(command) = commands.last_mut() {
                command.push('\n');
                command.push_str(line);
            }
        } else if let Some(command) = line.strip_prefix("$ ") {
            commands.push(command.to_owned());
        } else {
            continue;
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Returns the command of a crontab's line; none for comments and variables.
pub fn cron_command(line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.split_whitespace().next()?.contains('=') {
        return None;
    }
    let mut rest = line;
    let fields = if line.starts_with('@') { 1 } else { 5 };
    for _ in 0..fields {
        rest = rest.split_once(char::is_whitespace)?.1.trim_start();
    }
    Some(rest.to_owned())
}

#[test]
fn commands_are_taken_out_of_blocks() {
    let block = "$ one \\\n>   more\noutput\n$ two # why\n";
    assert_eq!(commands(block), ["one \\\n  more", "two # why"]);
    for (line, command) in [
        ("*/15 * * * *  a b >> c", Some("a b >> c")),
        ("@daily a", Some("a")),
        ("# no", None),
        ("PATH=/bin", None),
        ("", None),
    ] {
        assert_eq!(cron_command(line).as_deref(), command, "{line}");
    }
    let page = "a\n```console needs-root,x\n$ a\n```\n  ```bash\n  b\n  ```\n";
    let found = blocks(page);
    assert_eq!(found[0].remarks, ["needs-root", "x"]);
    assert_eq!(
        (
            found[1].language.as_str(),
            found[1].text.as_str(),
            found[1].line
        ),
        ("bash", "b\n", 5)
    );
}
