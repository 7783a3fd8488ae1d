//! What `init` says: what it wrote, and what to type next.

use std::path::Path;

use crate::base::shell;
use crate::cli::output::Printer;
use crate::model::config::Config;
use crate::model::job::ExecutorKind;
use crate::setup::catalogue::App;
use crate::setup::init;
use crate::setup::init::NewFile;
use crate::setup::init::error::shown;

/// Where cron looks for commands by itself.
const CRON_PATH: [&str; 2] = ["/usr/bin", "/bin"];

/// Lists the catalogue.
pub fn catalogue(apps: &[App], printer: &mut Printer) {
    let width = apps.iter().map(|app| app.name.len()).max().unwrap_or(0);
    for app in apps {
        printer.line(&format!("{:<width$}  {}", app.name, app.about));
        let groups: Vec<String> = app.needs.iter().map(|group| group.join(" or ")).collect();
        if !groups.is_empty() {
            printer.line(&format!("{:<width$}  after {}", "", groups.join(", ")));
        }
        printer.line(&format!("{:<width$}  {}", "", app.docs));
    }
    if apps.is_empty() {
        printer.talk("the catalogue is empty");
    }
}

/// Prints the configuration, and names the rest.
pub fn would_write(files: &[NewFile], to_make: &[&Path], dir: &Path, printer: &mut Printer) {
    if let Some(config) = files.first() {
        printer.data(config.text.as_bytes());
    }
    listed("would write", "would make", files, to_make, dir, printer);
}

/// Names what is about to be written.
pub fn plan(files: &[NewFile], to_make: &[&Path], dir: &Path, printer: &mut Printer) {
    listed("file", "directory", files, to_make, dir, printer);
}

pub fn written(files: &[NewFile], to_make: &[&Path], dir: &Path, printer: &mut Printer) {
    listed("wrote", "made", files, to_make, dir, printer);
}

fn listed(
    file_word: &str,
    directory_word: &str,
    files: &[NewFile],
    to_make: &[&Path],
    dir: &Path,
    printer: &mut Printer,
) {
    for path in to_make {
        printer.talk(&format!("{directory_word} {}", shown(path)));
    }
    for file in files {
        printer.talk(&format!("{file_word} {}", shown(&dir.join(&file.path))));
    }
}

/// Prints the next three commands.
pub fn next(dir: &Path, config: &Config, printer: &mut Printer) {
    let file = dir.join(init::CONFIG).to_string_lossy().into_owned();
    let program = std::env::current_exe().ok();
    let for_cron = program
        .as_deref()
        .filter(|path| {
            let dir = path.parent();
            !CRON_PATH.iter().any(|known| dir == Some(Path::new(known)))
        })
        .and_then(Path::to_str)
        .unwrap_or("snbb-scheduler");
    let command = |program: &str, rest: &[&str]| {
        let mut words = vec![program, "--config", &file];
        words.extend(rest);
        shell::join(&words)
    };
    printer.line("# next: look through the configuration and the scripts, then run the checks");
    printer.line(&command("snbb-scheduler", &["check"]));
    printer.line("# what would be submitted:");
    printer.line(&command("snbb-scheduler", &["run", "--dry-run"]));
    printer.line(match config.executor {
        ExecutorKind::Slurm => "# for `crontab -e` on the login node:",
        ExecutorKind::Local => "# for `crontab -e` on this machine:",
    });
    let log = shell::quote(&dir.join("cron.log").to_string_lossy());
    let line = format!("{} >> {log} 2>&1", command(for_cron, &["-q", "run"]));
    printer.line(&cron_line(&line));
}

/// Makes a line of a crontab: cron takes `%` for a line break.
fn cron_line(command: &str) -> String {
    format!("*/15 * * * * {}", command.replace('%', "\\%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_is_no_line_break_for_cron() {
        assert_eq!(cron_line("run '/a%b'"), "*/15 * * * * run '/a\\%b'");
    }
}
