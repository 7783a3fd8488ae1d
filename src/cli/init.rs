//! `init`: writes a commented configuration and job scripts for a site.
//!
//! Examines the data and Slurm, asks for missing answers if there is a terminal, and writes all files or none. Their
//! contents come from [`crate::setup::init`].

mod add;
mod ask;
mod gather;
mod report;

use std::path::{Path, PathBuf};

use super::args::{Global, InitArgs};
use super::error::Failure;
use super::output::Printer;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::model::config::Config;
use crate::setup::init;
use crate::setup::init::write;

pub fn run(global: &Global, args: &InitArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    if args.list {
        report::catalogue(printer);
        return Ok(Exit::Done);
    }
    if let Some(file) = global.config.as_ref().filter(|_| args.add.is_none()) {
        let (file, config) = (file.display(), init::CONFIG);
        return Err(Failure::Usage {
            message: format!("init does not read a configuration (--config {file}), it writes one"),
            hint: format!("name the directory: `snbb-scheduler init DIR` creates DIR/{config}"),
        });
    }
    let cwd = std::env::current_dir().map_err(|source| Failure::Read {
        path: ".".into(),
        source,
    })?;
    let dir = gather::absolute("DIR", &args.dir, &cwd)?;
    if let Some(names) = &args.add {
        return add::run((global, args), names, (&dir, &cwd), printer);
    }
    if !args.dry_run {
        // Before asking questions in vain.
        write::none_in_the_way(&[dir.join(init::CONFIG)])?;
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
    let to_make: Vec<&Path> = to_make.iter().map(PathBuf::as_path).collect();
    if args.dry_run {
        printer.data(files.first().map_or("", |config| &config.text).as_bytes());
        report::listed(
            ["would create", "would write"],
            &files,
            &to_make,
            &dir,
            printer,
        );
        return Ok(Exit::Done);
    }
    if let Some(asker) = &asker {
        report::listed(["directory", "file"], &files, &to_make, &dir, printer);
        if !asker.agrees("Write them?")? {
            printer.info("nothing was written");
            return Ok(Exit::Done);
        }
    }
    write::write(&files, &to_make, &dir)?;
    report::listed(["created", "wrote"], &files, &to_make, &dir, printer);
    report::next(&dir, &config, printer);
    Ok(Exit::Done)
}

/// Reads a new configuration as every other command will, so that nothing is written that would not load.
fn load(text: &str, file: &Path, dir: &Path) -> Result<Config, Failure> {
    let none = Overrides::default();
    Ok(interpret(
        text.as_bytes(),
        Some(file),
        false,
        &sys::env,
        &none,
        dir,
    )?)
}
