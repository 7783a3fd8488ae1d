//! `metrics`: metrics for Prometheus, printed or written to a file.

use super::args::MetricsArgs;
use super::context::{refuse_data, refuse_foreign};
use super::notify::records_runs;
use super::{Context, Exit, Failure, Printer, Result};
use crate::base::durable;
use crate::show::notify::metrics::{MARK, render};
use crate::show::notify::{Memory, Study};

pub(super) fn run(context: &Context, args: &MetricsArgs, printer: &mut Printer) -> Result<Exit> {
    if let Some(path) = &args.output {
        refuse_data(&context.config, path, "metrics_file")?;
        refuse_foreign(path, MARK)?;
    }
    let state = context.read_state(printer)?;
    let control = context.store.read_control()?;
    let (memory, warning) = Memory::read(&context.store.paths.calls);
    if let Some(warning) = warning {
        printer.warning(&warning);
    }
    let is_recorded = records_runs(&context.config) || memory.last_run.is_some();
    if !is_recorded {
        printer.note(
            "the metrics about runs are missing: runs record them only if `metrics_file`, `heartbeat_file` or `notify` is set",
        );
    }
    let project = context.project(&state);
    let study = Study {
        config: &context.config,
        project: &project,
        state: Some(&state),
        control: Some(&control),
        memory: &memory,
    };
    let text = render(&study, is_recorded);
    match &args.output {
        None => printer.data(text.as_bytes()),
        Some(path) => durable::overwrite(path, text.as_bytes(), MARK)
            .map_err(|error| Failure::write(path)(error.source))?,
    }
    Ok(Exit::Done)
}
