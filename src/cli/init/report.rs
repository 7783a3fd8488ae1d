//! The messages of `init`: what it wrote and the next commands.

use std::path::Path;

use crate::base::shell;
use crate::cli::output::Printer;
use crate::model::config::Config;
use crate::setup::init::error::shown;
use crate::setup::init::existing::Existing;
use crate::setup::init::{self, NewFile};
use crate::setup::{catalogue, place};

pub fn catalogue(printer: &mut Printer) {
    let apps = catalogue::apps();
    let width = apps.iter().map(|app| app.name.len()).max().unwrap_or(0);
    for app in apps {
        printer.line(&format!("{:<width$}  {}", app.name, app.about));
        let groups: Vec<String> = app.needs.iter().map(|group| group.join(" or ")).collect();
        if !groups.is_empty() {
            printer.line(&format!("{:<width$}  after {}", "", groups.join(", ")));
        }
        printer.line(&format!("{:<width$}  {}", "", app.docs));
    }
}

/// Lists directories and files, each after its word.
pub fn listed(
    [for_directory, for_file]: [&str; 2],
    files: &[NewFile],
    directories: &[&Path],
    dir: &Path,
    printer: &mut Printer,
) {
    for path in directories {
        printer.info(&format!("{for_directory} {}", shown(path)));
    }
    for file in files {
        printer.info(&format!("{for_file} {}", shown(&dir.join(&file.path))));
    }
}

/// Prints the next three commands.
pub fn next(dir: &Path, config: &Config, printer: &mut Printer) {
    let file = dir.join(init::CONFIG).to_string_lossy().into_owned();
    let program = std::env::current_exe().ok();
    let for_cron = program
        .as_deref()
        .filter(|path| !path.parent().is_some_and(place::is_on_cron_path))
        .and_then(Path::to_str)
        .unwrap_or("snbb-scheduler");
    let command = |program: &str, rest: &[&str]| {
        let mut words = vec![program, "--config", &file];
        words.extend(rest);
        shell::join(&words)
    };
    printer.line("# next: read the configuration and the scripts, then run the checks");
    printer.line(&command("snbb-scheduler", &["check"]));
    printer.line("# show what would be submitted:");
    printer.line(&command("snbb-scheduler", &["run", "--dry-run"]));
    printer.line(match config.executor.has_cluster() {
        true => "# for `crontab -e` on the login node:",
        false => "# for `crontab -e` on this machine:",
    });
    let log = shell::quote(&dir.join("cron.log").to_string_lossy());
    let line = format!("{} >> {log} 2>&1", command(for_cron, &["-q", "run"]));
    printer.line(&cron_line(&line));
}

/// A line of a crontab, in which `%` would be a line break.
fn cron_line(command: &str) -> String {
    format!("*/15 * * * * {}", command.replace('%', "\\%"))
}

/// Reports existing results.
pub fn existing(existing: &Existing, printer: &mut Printer) {
    for note in &existing.notes {
        printer.note(note);
    }
    for found in &existing.found {
        printer.info(&format!("found results: {}", found.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_escaped_for_cron() {
        assert_eq!(cron_line("run '/a%b'"), "*/15 * * * * run '/a\\%b'");
    }
}
