//! `man`: manual pages, generated from the help texts and the table of configuration keys.

#![expect(clippy::disallowed_methods, reason = "starts `man`")]

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::Path;
use std::process;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::args::{Cli, Global, ManArgs, with_own_help};
use super::context::{read_config, refuse_data, refuse_foreign};
use super::{Exit, Failure, Printer, Result};
use crate::base::regular::FileError;
use crate::config::keys::{Key, Section};
use crate::model::bids::suggest;

pub(super) fn run(global: &Global, args: &ManArgs, printer: &mut Printer) -> Result<Exit> {
    match (&args.output, &args.page) {
        (Some(dir), _) => {
            let count = write(global, dir)?;
            printer.info(&format!(
                "{count} pages written to {}; `man -l {}` shows the main one",
                dir.display(),
                dir.join("snbb-scheduler.1").display()
            ));
        }
        (None, None) => show(&main_page(&root()), printer),
        (None, Some(wanted)) => show(&chosen(wanted)?, printer),
    }
    Ok(Exit::Done)
}

/// Shows a page through `man` on a terminal, as `git help` does. Elsewhere, or without `man`, prints its source.
fn show(page: &[u8], printer: &mut Printer) {
    let through_man = || {
        let mut man = process::Command::new("man")
            .args(["-l", "-"])
            .stdin(process::Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = man.stdin.take() {
            stdin.write_all(page)?;
        }
        io::Result::Ok(man.wait()?.success())
    };
    if !printer.is_terminal() || !through_man().is_ok_and(|is_shown| is_shown) {
        printer.data(page);
    }
}

/// The page of a command, such as `run` or `state-verify`, or of the configuration.
fn chosen(wanted: &str) -> Result<Vec<u8>> {
    let pages = pages();
    let full = format!("{NAME}-{wanted}");
    // The page of the configuration file takes precedence over the command `config`.
    let mut found = pages.iter().rev();
    if let Some((_, page)) = found.find(|(file, _)| [&*full, wanted].contains(&stem(file))) {
        return Ok(page.clone());
    }
    let names = pages.iter();
    let names = names.filter_map(|(file, _)| stem(file).strip_prefix(NAME)?.strip_prefix('-'));
    let names: BTreeSet<&str> = names.collect();
    let hint = match suggest::nearest(wanted, names.iter().copied()) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("available pages: {}", Vec::from_iter(names).join(", ")),
    };
    Err(Failure::usage(format!("no manual page '{wanted}'"), hint))
}

/// A file's name without its section.
fn stem(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(name, _)| name)
}

fn root() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root.mut_subcommands(with_own_help)
}

/// Writes all pages and returns their number.
fn write(global: &Global, dir: &Path) -> Result<usize> {
    let pages = pages();
    // The pages need no configuration; if there is one, nothing is written to its data.
    let config = read_config(global).ok();
    for (name, _) in &pages {
        let path = dir.join(name);
        if let Some((config, _)) = &config {
            refuse_data(config, &path, "")?;
        }
        refuse_foreign(&path, MARK)?;
    }
    std::fs::create_dir_all(dir).map_err(FileError::of("write", dir))?;
    for (name, page) in &pages {
        let path = dir.join(name);
        std::fs::write(&path, page).map_err(FileError::of("write", &path))?;
    }
    Ok(pages.len())
}

/// All pages with their file names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let root = root();
    let mut pages = vec![(format!("{NAME}.1"), main_page(&root))];
    let mut commands: Vec<&Command> = root.get_subcommands().collect();
    while let Some(command) = commands.pop() {
        if command.is_hide_set() {
            continue;
        }
        commands.extend(command.get_subcommands());
        pages.push((format!("{}.1", name(command)), page(command)));
    }
    pages.push((format!("{NAME}-{}.5", CONFIG_PAGE), config_page()));
    pages
}

fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}

/// The page of a command.
fn page(command: &Command) -> Vec<u8> {
    let title = name(command).to_uppercase();
    let man = Man::new(command.clone()).title(title).date(NO_DATE);
    let mut page = Vec::new();
    // Writing to memory cannot fail.
    let _ = man.source(SOURCE).manual(NAME).render(&mut page);
    page
}

/// The page of the program.
fn main_page(root: &Command) -> Vec<u8> {
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    let config = bold(format!("{NAME}-{CONFIG_PAGE}"));
    roff.text([config, roman("(5), "), bold("sbatch"), roman("(1)")]);
    [page(root), roff.render().into_bytes()].concat()
}

/// Without a date, the pages of one version are reproducible. Roff omits an empty argument.
const NO_DATE: &str = "\"\"";
const NAME: &str = "snbb-scheduler";
const SOURCE: &str = concat!("snbb-scheduler ", env!("CARGO_PKG_VERSION"));
/// Part of the first line of each page.
const MARK: &str = "\"snbb-scheduler ";

/// Name of the page, and the argument of `man` for it.
const CONFIG_PAGE: &str = "config";

/// The page, in section 5 of the manual.
fn config_page() -> Vec<u8> {
    let mut roff = Roff::new();
    let title = format!("{NAME}-{CONFIG_PAGE}").to_uppercase();
    roff.control("TH", [&*title, "5", NO_DATE, SOURCE, NAME]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!(
        "{NAME}-{CONFIG_PAGE} - the configuration file of {NAME}"
    ))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold(format!("{NAME} --config")),
        roman(" "),
        italic("config.yaml"),
        roman(" ..."),
    ]);
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A YAML file, named by --config or the environment variable SNBB_CONFIG. `init` writes one, and `check` checks it. \
         Relative paths are relative to its directory; a leading ~ and ${VARIABLE} or ${VARIABLE:-default} are expanded. \
         Unknown keys are errors.",
    )]);
    roff.control("SH", ["OPTIONS"]);
    roff.text([roman(
        "All keys, grouped by the mapping they belong to, each with its type, default and meaning.",
    )]);
    for section in Section::ALL {
        roff.control("SS", [section.place()]);
        for key in section.keys() {
            roff.control("TP", []);
            roff.text(tag(key));
            roff.text([roman(format!("{}.", plain(key.doc)))]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold(NAME), roman("(1)")]);
    roff.render().into_bytes()
}

fn tag(key: &Key) -> Vec<Inline> {
    let kind = italic(plain(&key.kind.words()));
    let default = key.default.words();
    let default = default.map(|default| roman(format!(" (default: {})", plain(&default))));
    let tag = [bold(key.name), roman(": "), kind];
    tag.into_iter().chain(default).collect()
}

/// The text without Markdown's marks.
fn plain(text: &str) -> String {
    text.replace('`', "")
}
