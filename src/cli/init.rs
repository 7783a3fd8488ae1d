//! `init`: writes a commented configuration and job scripts for a site.
//!
//! Examines the data and Slurm, asks for missing answers if there is a terminal, and writes all files or none. Their
//! contents come from [`crate::setup::init`].

mod gather;

use std::path::{Path, PathBuf};

use super::args::{Global, InitArgs};
use super::{Config, Exit, Failure, Printer, Result, sys};
use crate::base::regular::FileError;
use crate::base::{durable, regular, shell};
use crate::config::load::{choose, interpret};
use crate::config::{Overrides, paths};
use crate::gather::sessions::discover::discover;
use crate::setup::catalogue::App;
use crate::setup::init::existing::Existing;
use crate::setup::init::{self, InitError, NewFile, shown, template, write};
use crate::setup::{catalogue, place};

pub(super) fn run(global: &Global, args: &InitArgs, printer: &mut Printer) -> Result<Exit> {
    if args.list {
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
        return Ok(Exit::Done);
    }
    if let Some(file) = global.config.as_ref().filter(|_| args.add.is_none()) {
        let (file, config) = (file.display(), init::CONFIG);
        return Err(Failure::usage(
            format!("init does not read a configuration (--config {file}), it writes one"),
            format!("name the directory: `snbb-scheduler init DIR` creates DIR/{config}"),
        ));
    }
    let cwd = std::env::current_dir().map_err(FileError::of("read", Path::new(".")))?;
    let dir = absolute("DIR", &args.dir, &cwd)?;
    if let Some(names) = &args.add {
        return add((global, args), names, (&dir, &cwd), printer);
    }
    if !args.dry_run {
        // Before asking questions in vain.
        write::check_new(&dir.join(init::CONFIG))?;
    }
    let asker = gather::Asker::new(args.yes);
    if asker.is_some() {
        printer.info(&format!(
            "Setting up a study in {}. Press Enter to accept the value in brackets, Ctrl-C to quit. Nothing is written before \
             the last answer.",
            dir.display()
        ));
    } else if !args.yes {
        printer.note(
            "not asking questions without a terminal: using options and defaults, as with --yes",
        );
    }
    let (answers, to_make) = gather::Gatherer {
        global,
        args,
        cwd: &cwd,
        dir: &dir,
        asker: asker.as_ref(),
        printer,
    }
    .answers()?;
    let files = init::files(&answers, &dir)?;
    let text = files.first().map_or("", |config| &config.text);
    let config = load(text, &dir.join(init::CONFIG), &dir)?;
    printer.warnings(&config.warnings);
    let list = |words: [&str; 2], printer: &mut Printer| {
        list_files(words, &files, &to_make, &dir, printer);
    };
    if args.dry_run {
        printer.data(text.as_bytes());
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
    // The next three commands.
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
    let host = match config.executor.has_cluster() {
        true => "the login node",
        false => "this machine",
    };
    printer.line(&format!("# for `crontab -e` on {host}:"));
    let log = shell::quote(&dir.join("cron.log").to_string_lossy());
    let line = format!("{} >> {log} 2>&1", command(for_cron, &["-q", "run"]));
    printer.line(&cron_line(&line));
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

/// Lists directories and files, each after its word.
fn list_files(
    [for_directory, for_file]: [&str; 2],
    files: &[NewFile],
    directories: &[PathBuf],
    dir: &Path,
    printer: &mut Printer,
) {
    let directories = directories.iter().map(|path| (for_directory, path.clone()));
    let files = files.iter().map(|file| (for_file, dir.join(&file.path)));
    for (word, path) in directories.chain(files) {
        printer.info(&format!("{word} {}", shown(&path)));
    }
}

/// A line of a crontab, in which `%` would be a line break.
fn cron_line(command: &str) -> String {
    format!("*/15 * * * * {}", command.replace('%', "\\%"))
}

/// Reports existing results.
fn report_existing(existing: &Existing, printer: &mut Printer) {
    printer.notes(&existing.notes);
    for found in &existing.found {
        printer.info(&format!("found results: {}", found.text));
    }
}

/// Parses a path as the configuration does: `~` and `${VAR}` are expanded, a relative one is relative to the working
/// directory.
fn absolute(option: &'static str, given: &Path, cwd: &Path) -> Result<PathBuf, InitError> {
    let wrong = |why: &str| {
        let text = format!("'{}': {why}", given.display().to_string().escape_debug());
        InitError::wrong(option, text, "correct the option; nothing was written")
    };
    let text = given
        .to_str()
        .ok_or_else(|| wrong("is not UTF-8, which a configuration must be"))?;
    if text.is_empty() {
        return Err(wrong("is empty"));
    }
    let expanded = paths::expand(text, &sys::env);
    let expanded = expanded.map_err(|error| wrong(&error))?;
    Ok(paths::absolute(cwd, &expanded))
}

/// `init --add APP`: adds apps of the catalogue to an existing study.
fn add(
    (global, args): (&Global, &InitArgs),
    names: &[String],
    (dir, cwd): (&Path, &Path),
    printer: &mut Printer,
) -> Result<Exit> {
    // A named directory takes precedence; without one, the same configuration as for every other command.
    let env = |name: &str| sys::env(name).filter(|_| dir == cwd);
    let named = choose(global.config.clone(), &env);
    let named = named.map_or_else(|| dir.join(init::CONFIG), |file| cwd.join(file));
    // A link to the configuration stays a link.
    let file = std::fs::canonicalize(&named).unwrap_or(named.clone());
    let Some(before) = durable::read(&file)? else {
        return Err(Failure::usage(
            format!("no configuration {} to add to", file.display()),
            "name it: snbb-scheduler --config FILE init --add APP; `init` writes a new one",
        ));
    };
    if std::fs::metadata(&file).is_ok_and(|metadata| metadata.permissions().readonly()) {
        return Err(Failure::usage(
            format!("{} is read-only; nothing was changed", file.display()),
            "make it writable (chmod u+w), or add the entry to its original",
        ));
    }
    let mut text = String::from_utf8_lossy(&before).into_owned();
    // Its paths are relative to the given name, as for other commands.
    let dir = named.parent().unwrap_or(dir);
    let config = load(&text, &named, dir)?;
    // Scripts are searched for in both.
    let scripts_dir = config.script_dir.clone().unwrap_or_else(|| dir.to_owned());
    let own = || config.procedures.iter().map(|(_, procedure)| procedure);
    let converter = own().find(|procedure| procedure.is_below_bids());
    let converter = converter.map(|procedure| &*procedure.name);
    let mut known: Vec<&str> = own().map(|procedure| &*procedure.name).collect();
    let mut wanted: Vec<String> = Vec::new();
    for name in names {
        let name = init::find(name, catalogue::apps())?.name;
        if known.contains(&name) {
            let text = format!("'{name}' is already a procedure of the configuration");
            let hint = "edit its entry; nothing was changed";
            return Err(InitError::wrong("--add", text, hint).into());
        }
        known.push(name);
        wanted.push(name.to_owned());
    }
    // Without sessions, the entries are the catalogue's.
    let sessions = match discover(&config) {
        Ok(found) => found.sessions,
        Err(error) => {
            printer.note(&format!("existing results were not checked: {error}"));
            Vec::new()
        }
    };
    let existing = Existing::find(&config, &sessions, Some(&wanted));
    report_existing(&existing, printer);
    let mut files = Vec::new();
    for app in wanted.iter().filter_map(|name| existing.app(name)) {
        // Its tasks would be due at once and fail without the apps that it needs. Converters are exempt.
        let is_there = |name: &&str| known.contains(name);
        let is_converter = |name: &&str| catalogue::app(name).is_some_and(App::is_converter);
        let mut needs = app.needs.iter();
        let missing = needs.find(|any| !any.iter().any(is_there) && !any.iter().all(is_converter));
        if let Some(missing) = missing {
            let (name, needed) = (app.name, missing.join(" or "));
            let text = format!(
                "{name} needs results of {needed}, which is not a procedure of the configuration"
            );
            let first = missing.first().copied().unwrap_or_default();
            let hint = format!(
                "add both: --add {first},{name}; if another procedure produces them, write the entry yourself"
            );
            return Err(InitError::wrong("--add", text, hint).into());
        }
        text = template::with_entry(&text, &app.entry_for(&known, converter))?;
        files.extend(init::scripts(app, dir, &scripts_dir)?);
    }
    load(&text, &named, dir)?;
    // Files that a killed invocation has left.
    files.retain(|new| {
        !regular::read_regular(&dir.join(&new.path)).is_ok_and(|text| text == new.text.as_bytes())
    });
    let (wrote, added) = match args.dry_run {
        true => ("would write", "would add to"),
        false => ("wrote", "added to"),
    };
    if args.dry_run {
        printer.data(text.as_bytes());
    } else {
        write::write(&files, &[], dir)?;
        let replaced = durable::replace(&file, text.as_bytes(), Some(&before));
        replaced.map_err(|error| Failure::State(error.into()))?;
    }
    list_files(["", wrote], &files, &[], dir, printer);
    let (file, names) = (file.display(), wanted.join(", "));
    printer.info(&format!("{added} {file}: {names}"));
    if !args.dry_run {
        printer.hint("read the new entry and its script, then: snbb-scheduler check");
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_escaped_for_cron() {
        assert_eq!(cron_line("run '/a%b'"), "*/15 * * * * run '/a\\%b'");
    }
}
