//! `init`: writes a commented configuration and job scripts for a site.
//!
//! Examines the data and Slurm, asks for missing answers if there is a terminal, and writes all files or none. Their
//! contents come from [`crate::setup::init`].

mod add;
mod ask;
mod gather;

use std::path::{Path, PathBuf};

use super::args::{Global, InitArgs};
use super::error::{Failure, Result};
use super::output::Printer;
use crate::base::exit::Exit;
use crate::base::{shell, sys};
use crate::config::load::interpret;
use crate::config::{Overrides, paths};
use crate::model::config::Config;
use crate::setup::init::error::shown;
use crate::setup::init::existing::Existing;
use crate::setup::init::{self, InitError, NewFile, write};
use crate::setup::{catalogue, place};

pub(super) fn run(global: &Global, args: &InitArgs, printer: &mut Printer) -> Result<Exit> {
    if args.list {
        print_catalogue(printer);
        return Ok(Exit::Done);
    }
    if let Some(file) = global.config.as_ref().filter(|_| args.add.is_none()) {
        let (file, config) = (file.display(), init::CONFIG);
        return Err(Failure::usage(
            format!("init does not read a configuration (--config {file}), it writes one"),
            format!("name the directory: `snbb-scheduler init DIR` creates DIR/{config}"),
        ));
    }
    let cwd = std::env::current_dir().map_err(Failure::read(Path::new(".")))?;
    let dir = absolute("DIR", &args.dir, &cwd)?;
    if let Some(names) = &args.add {
        return add::run((global, args), names, (&dir, &cwd), printer);
    }
    if !args.dry_run {
        // Before asking questions in vain.
        write::check_new(&[dir.join(init::CONFIG)])?;
    }
    let asker = ask::Asker::new(args.yes);
    if asker.is_none() && !args.yes {
        printer.note(
            "not asking questions without a terminal: using options and defaults, as with --yes",
        );
    }
    if asker.is_some() {
        printer.info(&format!(
            "Setting up a study in {}. Press Enter to accept the value in brackets, Ctrl-C to quit. Nothing is written before \
             the last answer.",
            dir.display()
        ));
    }
    let (answers, to_make) = gather::Gatherer {
        global,
        args,
        cwd: &cwd,
        dir: &dir,
        asker: asker.as_ref(),
        printer,
        to_make: Vec::new(),
    }
    .answers()?;
    let files = init::files(&answers, &dir)?;
    let text = files.first().map_or("", |file| &file.text);
    let config = load(text, &dir.join(init::CONFIG), &dir)?;
    for warning in &config.warnings {
        printer.warning(warning);
    }
    let list = |words: [&str; 2], printer: &mut Printer| {
        list_files(words, &files, &to_make, &dir, printer);
    };
    if args.dry_run {
        printer.data(files.first().map_or("", |config| &config.text).as_bytes());
        list(["would create", "would write"], printer);
        return Ok(Exit::Done);
    }
    if let Some(asker) = &asker {
        list(["directory", "file"], printer);
        if !asker.agrees("Write them?")? {
            printer.info("nothing was written");
            return Ok(Exit::Done);
        }
    }
    write::write(&files, &to_make, &dir)?;
    list(["created", "wrote"], printer);
    print_next_steps(&dir, &config, printer);
    Ok(Exit::Done)
}

/// Reads a new configuration as every other command will, so that nothing is written that would not load.
fn load(text: &str, file: &Path, dir: &Path) -> Result<Config> {
    let none = Overrides::default();
    let config = interpret(text.as_bytes(), Some(file), false, &sys::env, &none, dir);
    Ok(config.map_err(|error| {
        let text = format!("the options make no valid configuration: {error}");
        InitError::wrong("", text, "correct the option; nothing was written")
    })?)
}

fn print_catalogue(printer: &mut Printer) {
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
fn list_files(
    [for_directory, for_file]: [&str; 2],
    files: &[NewFile],
    directories: &[PathBuf],
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
fn print_next_steps(dir: &Path, config: &Config, printer: &mut Printer) {
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
fn report_existing(existing: &Existing, printer: &mut Printer) {
    for note in &existing.notes {
        printer.note(note);
    }
    for found in &existing.found {
        printer.info(&format!("found results: {}", found.text));
    }
}

/// Parses a path as the configuration does: `~` and `${VAR}` are expanded, a relative one is relative to the working
/// directory.
fn absolute(option: &'static str, given: &Path, cwd: &Path) -> Result<PathBuf, InitError> {
    let value = |why: &str| {
        let text = format!("'{}': {why}", given.display().to_string().escape_debug());
        InitError::wrong(option, text, "correct the option; nothing was written")
    };
    if given.as_os_str().is_empty() {
        return Err(value("is empty"));
    }
    let Some(text) = given.to_str() else {
        let why = "is not UTF-8, which a configuration must be";
        return Err(InitError::unfit_path(option, given, why));
    };
    let expanded = paths::expand(text, &sys::env);
    let expanded = expanded.map_err(|error| value(&error))?;
    Ok(paths::absolute(cwd, &expanded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_escaped_for_cron() {
        assert_eq!(cron_line("run '/a%b'"), "*/15 * * * * run '/a\\%b'");
    }
}
