//! `init --add APP`: adds an app of the catalogue to an existing study.

use std::path::Path;

use super::{list_files, load, report_existing};
use crate::base::exit::Exit;
use crate::base::{durable, regular, sys};
use crate::cli::args::{Global, InitArgs};
use crate::cli::error::{Failure, Result};
use crate::cli::output::Printer;
use crate::config::Source;
use crate::gather::sessions::discover::discover;
use crate::model::bids::suggest;
use crate::model::config::Config;
use crate::setup::catalogue::{self, App};
use crate::setup::init::existing::Existing;
use crate::setup::init::{self, InitError, NewFile, add, write};

pub(super) fn run(
    (global, args): (&Global, &InitArgs),
    names: &[String],
    (dir, cwd): (&Path, &Path),
    printer: &mut Printer,
) -> Result<Exit> {
    // A named directory takes precedence; without one, the same configuration as for every other command.
    let env = |name: &str| sys::env(name).filter(|_| dir == cwd);
    let file = match Source::choose(global.config.clone(), &env) {
        Source::File(file) => cwd.join(file),
        Source::Defaults => dir.join(init::CONFIG),
    };
    // A link to the configuration stays a link.
    let (file, named) = (std::fs::canonicalize(&file).unwrap_or(file.clone()), file);
    let Some(before) = durable::read(&file).map_err(Failure::read(&file))? else {
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
    let mut known: Vec<String> = config
        .procedures
        .iter()
        .map(|(_, procedure)| procedure.name.to_string())
        .collect();
    // Scripts are searched for in both.
    let scripts_dir = config.script_dir.clone().unwrap_or_else(|| dir.to_owned());
    let own_converter = config
        .procedures
        .iter()
        .find(|(_, one)| one.is_below_bids());
    let own_converter = own_converter.map(|(_, one)| one.name.to_string());
    for (before, name) in names.iter().enumerate() {
        let taken = known.iter().chain(names.iter().take(before));
        check(name, taken)?;
    }
    let existing = existing(&config, names, printer);
    let mut files = Vec::new();
    known.extend(names.iter().cloned());
    let all: Vec<&str> = known.iter().map(String::as_str).collect();
    for app in names.iter().filter_map(|name| existing.app(name)) {
        check_needs(app, &known)?;
        let entry = app.entry_for(&all, own_converter.as_deref());
        text = add::with_entry(&text, &entry)?;
        files.extend(init::scripts(app, dir, &scripts_dir)?);
    }
    load(&text, &named, dir)?;
    // Files that a killed invocation has left.
    files.retain(|new| {
        !regular::read_regular(&dir.join(&new.path)).is_ok_and(|text| text == new.text.as_bytes())
    });
    let report = |[wrote, added]: [&str; 2], files: &[NewFile], printer: &mut Printer| {
        list_files(["", wrote], files, &[], dir, printer);
        let (file, names) = (file.display(), names.join(", "));
        printer.info(&format!("{added} {file}: {names}"));
    };
    if args.dry_run {
        printer.data(text.as_bytes());
        report(["would write", "would add to"], &files, printer);
        return Ok(Exit::Done);
    }
    write::write(&files, &[], dir)?;
    if let Err(error) = durable::replace(&file, text.as_bytes(), Some(&before)) {
        // An unused script does no harm, but would be in the way next time.
        for new in &files {
            let _ = std::fs::remove_file(&new.path);
        }
        return Err(Failure::State(error.into()));
    }
    report(["wrote", "added to"], &files, printer);
    printer.hint("read the new entry and its script, then: snbb-scheduler check");
    Ok(Exit::Done)
}

/// Finds and reports existing results of the apps. Without sessions, the entries are the catalogue's.
fn existing(config: &Config, names: &[String], printer: &mut Printer) -> Existing {
    let sessions = discover(&config.search()).map_or_else(
        |error| {
            printer.note(&format!("existing results were not checked: {error}"));
            Vec::new()
        },
        |found| found.sessions,
    );
    let existing = Existing::find(config, &sessions, Some(names));
    report_existing(&existing, printer);
    existing
}

/// Refuses an app without the apps it needs, because its tasks would be due at once and fail. Converters are exempt.
fn check_needs(app: &App, known: &[String]) -> Result<()> {
    let is_there = |name: &&str| known.iter().any(|known| known == name);
    let is_converter = |name: &&str| catalogue::app(name).is_some_and(App::is_converter);
    let missing = app
        .needs
        .iter()
        .find(|any| !any.iter().any(is_there) && !any.iter().all(is_converter));
    let Some(missing) = missing else {
        return Ok(());
    };
    let (name, needed) = (app.name, missing.join(" or "));
    let text =
        format!("{name} needs results of {needed}, which is not a procedure of the configuration");
    let both = [missing.first().copied().unwrap_or_default(), name].join(",");
    let hint = format!(
        "add both: --add {both}; if another procedure produces them, write the entry yourself"
    );
    Err(InitError::wrong("--add", text, hint).into())
}

fn check<'a>(name: &str, mut taken: impl Iterator<Item = &'a String>) -> Result<()> {
    if catalogue::app(name).is_none() {
        let all = catalogue::apps().iter().map(|app| app.name);
        let meant = suggest::nearest(name, all).map(|meant| format!("did you mean {meant}? "));
        let text = format!("'{name}' is not in the catalogue");
        let hint = format!(
            "{}`snbb-scheduler init --list` shows the catalogue",
            meant.unwrap_or_default()
        );
        return Err(InitError::wrong("--add", text, hint).into());
    }
    if taken.any(|taken| taken == name) {
        let text = format!("'{name}' is already a procedure of the configuration");
        return Err(InitError::wrong("--add", text, "edit its entry; nothing was changed").into());
    }
    Ok(())
}
