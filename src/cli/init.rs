//! `init`: writes a commented configuration and job scripts for a site.
//!
//! Looks at the data and at Slurm, asks for what is missing where there is somebody to ask, and writes all files or
//! none. What the files say is made in [`crate::setup::init`].

mod ask;
mod gather;
mod tell;

use std::path::{Path, PathBuf};

use super::args::{Global, InitArgs};
use super::error::Failure;
use super::output::Printer;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::model::config::Config;
use crate::setup::init::{InitError, NewFile, look, write};
use crate::setup::{catalogue, init};

pub fn run(global: &Global, args: &InitArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    if args.list {
        tell::catalogue(catalogue::apps(), printer);
        return Ok(Exit::Done);
    }
    if let Some(file) = &global.config {
        return Err(Failure::Usage {
            message: format!(
                "init reads no configuration (--config {}), it writes one",
                file.display()
            ),
            hint: format!(
                "name the directory: snbb-scheduler init DIR makes DIR/{}",
                init::CONFIG
            ),
        });
    }
    let cwd = std::env::current_dir().map_err(|source| Failure::Read {
        path: ".".into(),
        source,
    })?;
    let dir = gather::path("DIR", &args.dir, &cwd)?;
    if !args.dry_run {
        // Before any question is asked in vain.
        let found = write::in_the_way(&[placeholder(init::CONFIG)], &dir)?;
        if !found.is_empty() {
            return Err(InitError::Exists(found).into());
        }
    }
    let asker = ask::Asker::new(args.yes);
    if asker.is_none() && !args.yes {
        printer.note("there is no terminal, so nothing is asked: options and what is found decide, as with --yes");
    }
    if asker.is_some() {
        printer.talk(&format!(
            "A study in {}. Enter takes what stands in brackets; Ctrl-C ends, and nothing is written before the last answer.",
            dir.display()
        ));
    }
    let gathered = gather::Gatherer {
        global,
        args,
        cwd: &cwd,
        dir: &dir,
        asker: asker.as_ref(),
        apps: catalogue::apps(),
        printer,
    }
    .answers()?;
    let files = init::files(&gathered.answers, &dir)?;
    let config = load(&files, &dir)?;
    for warning in &config.warnings {
        printer.warning(warning);
    }
    let to_make: Vec<&Path> = gathered.to_make.iter().map(PathBuf::as_path).collect();
    if args.dry_run {
        tell::would_write(&files, &to_make, &dir, printer);
        return Ok(Exit::Done);
    }
    if let Some(asker) = &asker {
        tell::plan(&files, &to_make, &dir, printer);
        if !asker.agrees("Write them?")? {
            printer.talk("nothing was written");
            return Ok(Exit::Done);
        }
    }
    write::write(&files, &to_make, &dir)?;
    tell::written(&files, &to_make, &dir, printer);
    tell::next(&dir, &config, printer);
    Ok(Exit::Done)
}

/// Reads what is to be written as every other command will: nothing is written that would not load.
fn load(files: &[NewFile], dir: &Path) -> Result<Config, Failure> {
    let text = files.first().map(|file| file.text.as_bytes());
    let file = dir.join(init::CONFIG);
    Ok(interpret(
        text.unwrap_or_default(),
        Some(&file),
        false,
        &sys::env,
        &Overrides::default(),
        dir,
    )?)
}

fn placeholder(name: &str) -> NewFile {
    NewFile {
        path: name.into(),
        text: String::new(),
        is_executable: false,
    }
}

/// True if a path is there, whatever it is.
fn is_there(path: &Path) -> bool {
    look::place(path) != look::Place::Missing
}
