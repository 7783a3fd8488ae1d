//! `state path`: the paths of the state's files, for scripts. Reads none of them and takes no lock.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::ValueEnum as _;

use crate::base::exit::Exit;
use crate::cli::args::{PathArgs, StateFile};
use crate::cli::context::Context;
use crate::cli::error::Failure;
use crate::cli::output::Printer;
use crate::show::tables::health::paths_frame;

pub fn run(context: &Context, args: &PathArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    match args.file {
        // A path need not be UTF-8.
        Some(file) => {
            let mut line = path(context, file).as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            printer.data(&line);
        }
        None => {
            let all: Vec<(String, String)> = StateFile::value_variants()
                .iter()
                .map(|&file| (word(file), path(context, file).display().to_string()))
                .collect();
            printer.frame(&paths_frame(&all)?, args.format, &[], &[])?;
        }
    }
    Ok(Exit::Done)
}

fn path(context: &Context, file: StateFile) -> &Path {
    let paths = &context.store.paths;
    match file {
        StateFile::State => &paths.state,
        StateFile::Attempts => &paths.attempts,
        StateFile::Audit => &context.config.log_file,
        StateFile::Backup => &paths.backup,
        StateFile::Journal => &paths.journal,
        StateFile::Control => &paths.control,
        StateFile::Calls => &paths.calls,
        StateFile::Lock => &paths.lock,
        StateFile::Local => &paths.local,
        StateFile::Arrays => &paths.arrays,
    }
}

fn word(file: StateFile) -> String {
    file.to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}
