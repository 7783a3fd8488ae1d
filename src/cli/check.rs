//! `check`: says whether the set-up is sound.

mod text;

use super::args::{CheckArgs, Global};
use super::context::{config_beside, read_config};
use super::error::Failure;
use super::output::{Format, Printer};
use crate::base::exit::Exit;
use crate::base::sys;
use crate::setup::check::{self, Finding, Findings, Level, Site, checks_frame, config};

pub fn run(global: &Global, args: &CheckArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    let is_usable = match read_config(global, &sys::env) {
        Ok(loaded) => {
            config::usable(&loaded, config_beside().as_deref(), &mut findings);
            let file = loaded.file.clone();
            let progress = printer.progress(None, "checking");
            check::run::run(Site::new(loaded), &mut findings);
            if args.cron {
                check::cron::check(file.as_deref(), global.config.is_none(), &mut findings);
            }
            progress.finish();
            true
        }
        Err(error) => {
            config::unusable(&error, &mut findings);
            false
        }
    };
    let mut findings = findings.list;
    let has_errors = findings.iter().any(|finding| finding.level == Level::Error);
    let exit = match (is_usable, has_errors) {
        (false, _) => Exit::Usage,
        (true, true) => Exit::Error,
        (true, false) => Exit::Done,
    };
    check::sort(&mut findings);
    show(&findings, args.format, printer)?;
    if args.format == Format::Table && exit == Exit::Done && !args.cron {
        printer.detail("`snbb-scheduler check --cron` repeats the part about Slurm as cron would");
    }
    Ok(exit)
}

fn show(findings: &[Finding], format: Format, printer: &mut Printer) -> Result<(), Failure> {
    if format != Format::Table {
        printer.frame(&checks_frame(findings)?, format, &[], &[])?;
        return Ok(());
    }
    let findings = &check::combined(findings.to_vec());
    let looks = text::TextStyle {
        width: printer.width(),
        color: printer.is_colored(),
        symbols: printer.has_symbols(),
    };
    // Who asks for quiet wants to hear of trouble only.
    let is_quiet = printer.is_quiet();
    let shown = findings
        .iter()
        .filter(|finding| !is_quiet || finding.level != Level::Ok);
    printer.data(text::list(shown, looks).as_bytes());
    let verdict = check::verdict(findings);
    if !is_quiet || findings.iter().any(|finding| finding.level != Level::Ok) {
        printer.data(text::verdict(&verdict, findings, looks).as_bytes());
    }
    Ok(())
}
