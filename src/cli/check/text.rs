//! Findings as lines for people: the level, what it is about, and below it what to do.

use anstyle::{AnsiColor, Style};

use crate::base::printable::printable;
use crate::cli::blocks::wrap;
use crate::setup::check::{Finding, Level};

/// Says how they are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct TextStyle {
    /// The terminal's width; none: nothing is wrapped.
    pub width: Option<u16>,
    pub color: bool,
    pub symbols: bool,
}

/// Columns of the level's word, with its symbol.
const LABEL: usize = "warning".len() + 2;
const WITH_SYMBOL: usize = LABEL + 2;
/// Narrower than this nothing is wrapped: a word per line helps nobody.
const NARROWEST: usize = 40;

/// Lists findings in their order.
pub fn list<'a>(findings: impl Iterator<Item = &'a Finding>, looks: TextStyle) -> String {
    let indent = if looks.symbols { WITH_SYMBOL } else { LABEL };
    let mut text = String::new();
    for finding in findings {
        let label = label(finding.level, looks);
        let style = style(finding.level, looks);
        let blanks = indent.saturating_sub(label.chars().count());
        let mut head = finding.topic.to_owned();
        if !finding.about.is_empty() {
            head.push(' ');
            head.push_str(&finding.about);
        }
        let line = format!("{head}: {}", finding.text);
        let mut lines = lines(&line, indent, looks).into_iter();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!("{style}{label}{style:#}{:blanks$}{first}\n", ""));
        let remedy = finding.remedy.iter();
        let remedy =
            remedy.flat_map(|remedy| self::lines(&format!("to do: {remedy}"), indent, looks));
        for line in lines.chain(remedy) {
            text.push_str(&format!("{:indent$}{line}\n", ""));
        }
    }
    text
}

/// Shows the last line.
pub fn verdict(verdict: &str, findings: &[Finding], looks: TextStyle) -> String {
    let worst = findings.iter().map(|finding| finding.level).max();
    let style = style(worst.unwrap_or(Level::Ok), looks);
    format!("{style}{verdict}{style:#}\n")
}

fn lines(text: &str, indent: usize, looks: TextStyle) -> Vec<String> {
    let text = printable(text);
    match looks.width {
        Some(width) => wrap(
            &text,
            usize::from(width).max(NARROWEST).saturating_sub(indent),
            2,
        ),
        None => vec![text.into_owned()],
    }
}

fn label(level: Level, looks: TextStyle) -> String {
    let symbol = match level {
        Level::Ok => '✓',
        Level::Warning => '!',
        Level::Error => '✗',
    };
    if looks.symbols {
        format!("{symbol} {}", level.as_str())
    } else {
        level.as_str().to_owned()
    }
}

fn style(level: Level, looks: TextStyle) -> Style {
    if !looks.color {
        return Style::new();
    }
    let color = match level {
        Level::Ok => AnsiColor::Green,
        Level::Warning => AnsiColor::Yellow,
        Level::Error => AnsiColor::Red,
    };
    Style::new().bold().fg_color(Some(color.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let finding = |level, topic, about: &str, text: &str, remedy: Option<&str>| Finding {
            level,
            topic,
            about: about.to_owned(),
            text: text.to_owned(),
            remedy: remedy.map(str::to_owned),
        };
        let remedy = "set script_dir to the directory of scripts";
        let text = "it is not there\x1b[31m";
        vec![
            finding(Level::Error, "script", "prep", text, Some(remedy)),
            finding(Level::Ok, "lock", "", "works", None),
        ]
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        let looks = TextStyle::default();
        assert_eq!(
            list(findings().iter(), looks),
            "error    script prep: it is not there\\u{1b}[31m\n         \
             to do: set script_dir to the directory of scripts\nok       lock: works\n"
        );
        assert_eq!(
            verdict("not sound: 1 error", &findings(), looks),
            "not sound: 1 error\n"
        );
    }

    #[test]
    fn a_terminal_gets_symbols_colour_and_short_lines() {
        let looks = TextStyle {
            width: Some(44),
            color: true,
            symbols: true,
        };
        let text = list(findings().iter(), looks);
        assert_eq!(
            text,
            "\u{1b}[1m\u{1b}[31m✗ error\u{1b}[0m    script prep: it is not\n             there\\u{1b}[31m\n           \
             to do: set script_dir to the\n             directory of scripts\n\u{1b}[1m\u{1b}[32m✓ ok\u{1b}[0m       lock: works\n"
        );
        assert!(verdict("x", &[], looks).starts_with("\u{1b}[1m\u{1b}[32mx"));
    }
}
