//! `check`: tests the setup and lists the findings, each with its remedy.

use anstyle::{AnsiColor, Style};

use super::args::{CheckArgs, Global};
use super::blocks::wrap;
use super::context::read_config;
use super::output::PrinterOptions;
use super::{Exit, Format, Printer, Result};
use crate::base::text::printable;
use crate::setup::check::{self, Finding, Findings, Level, Site, checks_frame, settings};

pub(super) fn run(global: &Global, args: &CheckArgs, printer: &mut Printer) -> Result<Exit> {
    let mut findings = Findings::default();
    let worst = match read_config(global) {
        Ok((loaded, _)) => {
            settings::usable(&loaded, &mut findings);
            let file = loaded.file.clone();
            let progress = printer.progress(None, "checking");
            check::run(Site::new(loaded), &mut findings);
            if args.cron {
                check::cron::check(file.as_deref(), global.config.is_none(), &mut findings);
            }
            progress.finish_and_clear();
            Exit::Error
        }
        Err(error) => {
            settings::unusable(&error, &mut findings);
            Exit::Usage
        }
    };
    let mut findings = findings.list;
    check::sort(&mut findings);
    let has_errors = findings
        .first()
        .is_some_and(|worst| worst.level == Level::Error);
    let exit = Exit::Done.unless(has_errors, worst);
    if args.format != Format::Table {
        printer.frame(&checks_frame(&findings)?, args.format, &[], &[])?;
        return Ok(exit);
    }
    let mut findings = check::combined(findings);
    let options = printer.options();
    let summary = verdict(&check::verdict(&findings), &findings, options);
    if printer.is_quiet() {
        findings.retain(|finding| finding.level != Level::Ok);
    }
    printer.data(list(findings.iter(), options).as_bytes());
    if !findings.is_empty() {
        printer.data(summary.as_bytes());
    }
    Ok(exit)
}

/// Width of the level.
const INDENT: usize = "warning".len() + 2;

/// Findings as lines: the level, the subject and, below it, the remedy.
fn list<'a>(findings: impl Iterator<Item = &'a Finding>, options: PrinterOptions) -> String {
    let mut text = String::new();
    for finding in findings {
        let Finding { topic, about, .. } = finding;
        let label = finding.level.as_str();
        let style = style(finding.level, options);
        let gap = if about.is_empty() { "" } else { " " };
        let lines = |text: String| wrap(&printable(&text), options.width, INDENT);
        let remedy = finding.remedy.iter();
        let remedy = remedy.flat_map(|remedy| lines(format!("to do: {remedy}")));
        let first = lines(format!("{topic}{gap}{about}: {}", finding.text));
        for (at, line) in first.into_iter().chain(remedy).enumerate() {
            let (label, style) = match at {
                0 => (label, style),
                _ => ("", Style::new()),
            };
            let blanks = INDENT.saturating_sub(label.len());
            text.push_str(&format!("{style}{label}{style:#}{:blanks$}{line}\n", ""));
        }
    }
    text
}

/// The last line.
fn verdict(verdict: &str, findings: &[Finding], options: PrinterOptions) -> String {
    let worst = findings.iter().map(|finding| finding.level).max();
    let style = style(worst.unwrap_or(Level::Ok), options);
    format!("{style}{verdict}{style:#}\n")
}

fn style(level: Level, options: PrinterOptions) -> Style {
    if !options.out_color {
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
        let finding = |level, topic, about: &str, text: &str, advice: Option<&str>| Finding {
            level,
            topic,
            about: about.to_owned(),
            text: text.to_owned(),
            remedy: advice.map(str::to_owned),
        };
        let advice = "set script_dir to the directory of scripts";
        let text = "it is not there\x1b[31m";
        vec![
            finding(Level::Error, "script", "prep", text, Some(advice)),
            finding(Level::Ok, "lock", "", "works", None),
        ]
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        let options = PrinterOptions::default();
        assert_eq!(
            list(findings().iter(), options),
            "error    script prep: it is not there\\u{1b}[31m\n         \
             to do: set script_dir to the directory of scripts\nok       lock: works\n"
        );
        assert_eq!(
            verdict("not sound: 1 error", &findings(), options),
            "not sound: 1 error\n"
        );
    }

    #[test]
    fn a_terminal_gets_colour_and_short_lines() {
        let options = PrinterOptions {
            width: Some(44),
            out_color: true,
            ..PrinterOptions::default()
        };
        let text = list(findings().iter(), options);
        assert_eq!(
            text,
            "\u{1b}[1m\u{1b}[31merror\u{1b}[0m    script prep: it is not\n           there\\u{1b}[31m\n         \
             to do: set script_dir to the\n           directory of scripts\n\u{1b}[1m\u{1b}[32mok\u{1b}[0m       lock: works\n"
        );
        assert!(verdict("x", &[], options).starts_with("\u{1b}[1m\u{1b}[32mx"));
    }
}
