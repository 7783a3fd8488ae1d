//! What has to happen before a task can proceed, and what a user can do, in one sentence.
//! All matches are exhaustive, so that no new decision is forgotten here.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{Explanation, View};
use crate::base::sys::local_time;
use crate::base::text::maybe;
use crate::config::duration;
use crate::decide::manifest::retry::{asked_mem, asked_time};
use crate::decide::manifest::{Blocked, Decision, Limit, Outlook, Planned, Skip};
use crate::decide::safety::hints;
use crate::executor::OtherExecutor;
use crate::gather::completion::Completion;
use crate::model::config::Config;
use crate::model::procedure::{MemSize, TimeLimit, options as requests};
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use crate::show::tables::words::outlook_text;

const UNKNOWN: &str = "Slurm is not responding, so the job's state is unknown; \
     the next successful `run` will check it";

/// There is no known job yet that `cancel` could end.
const IN_DOUBT: &str = "nothing; the next runs will find out whether Slurm accepted the job. \
     If the doubt remains, submit any other job (sbatch --wrap=true): \
     sacct must list a job to prove that it works";

pub(super) fn todo(
    view: &View<'_>,
    planned: &Planned,
    chain: &[&Planned],
    about: &Explanation,
) -> String {
    let Some(root) = chain.last() else {
        return of_task(view, planned, Some(about));
    };
    let (key, advice) = (&root.key, of_task(view, root, None));
    match advice.strip_prefix("nothing; ") {
        Some(why) => format!("nothing; {key} must be complete first: {why}"),
        None => format!("{key} must be complete first: {advice}"),
    }
}

fn of_task(view: &View<'_>, planned: &Planned, about: Option<&Explanation>) -> String {
    let outputs = view.outputs.findings(planned.procedure, &planned.session);
    let is_complete = outputs.verdict == Completion::Complete;
    let script_problem = about.and_then(|about| about.next.as_ref()?.script_problem.as_deref());
    let pending_reason = about.and_then(|about| about.job.as_ref()?.pending_reason.as_deref());
    let key = &planned.key;
    let row = view.state.get(key);
    let skip = match &planned.decision {
        Decision::Submit(_) => {
            return match script_problem {
                _ if !view.stops.is_empty() => {
                    format!("resolve the safety stop: {}", hints(view.stops))
                }
                Some(problem) => format!("{problem}; until then `run` cannot submit it"),
                None => "the next `snbb-scheduler run` will submit it".to_owned(),
            };
        }
        Decision::Skip(skip) => skip,
    };
    match skip {
        Skip::Complete if !is_complete => {
            "nothing; its outputs are not complete on this host now, and the next check will decide. \
             To check now: snbb-scheduler run --recheck"
                .to_owned()
        }
        Skip::Complete => "nothing; its outputs are complete".to_owned(),
        Skip::Stale(_) | Skip::LateInput => format!(
            "to rerun it: snbb-scheduler run --force{}; to rerun stale tasks automatically, set \
             `rerun_when_stale` for the procedure",
            options(key)
        ),
        Skip::Excluded => {
            "nothing; to include it, change `include` or `exclude` in the configuration".to_owned()
        }
        Skip::NotApplicable => "nothing; the session lacks the input of this procedure".to_owned(),
        Skip::InFlight { .. } => match row.and_then(|row| of_other(view, row)) {
            Some(other) => other.remedy(),
            None => in_flight(view, row, pending_reason),
        },
        Skip::Failed { outlook, .. } => failed(view, key, row, *outlook, is_complete),
        Skip::JobWithoutRow(id) => {
            format!("job {id} must end first; to cancel it: scancel {id}")
        }
        Skip::Renamed(removed) if removed.job_id.is_none() => IN_DOUBT.to_owned(),
        Skip::Renamed(removed) => {
            let old = TaskKey::new(&key.subject, &removed.session, &removed.procedure);
            format!(
                "nothing; that job must end first, even with --force. To cancel it: snbb-scheduler cancel{}",
                options(&old)
            )
        }
        Skip::NoDicom => match (view.dicom(planned), view.sessions_file()) {
            (Some(place), _) => format!("copy its DICOM files to {}", place.path),
            (None, Some(file)) => {
                format!("fill in the session's dicom_path in {}", file.display())
            }
            (None, None) => "the subject needs a session with DICOM files".to_owned(),
        },
        Skip::TooFewFiles { .. } => format!(
            "copy the missing DICOM files{}, or lower dicom_min_files (audit)",
            maybe(" to ", view.dicom(planned).map(|place| place.path), "")
        ),
        Skip::WaitingFor(waiting) if waiting.blocked == Some(Blocked::NotApplicable) => format!(
            "nothing, unless a session with input for {} arrives; to make {} not applicable too, add \
             `when` to its markers",
            waiting.procedure, key.procedure
        ),
        Skip::WaitingFor(waiting) => format!("{} must be complete first", waiting.procedure),
        Skip::Unreadable(what) => format!(
            "make {} readable for the user who runs this; nothing is submitted until then",
            what.path.display()
        ),
        Skip::OverLimit(Limit::Warmup { .. }) => format!(
            "the first jobs of {0} must succeed; those that failed: snbb-scheduler status --failed --procedure {0}",
            key.procedure
        ),
        Skip::OverLimit(_) | Skip::Settling { .. } | Skip::TooFewSessions { .. } => {
            "nothing; a later `run` will submit it, when this has changed".to_owned()
        }
        Skip::Paused(_) => {
            let own = Some(&key.procedure).filter(|_| view.decided.pauses.control.study.paused.is_none());
            let own = maybe(" --procedure ", own, "");
            format!("to end the pause: snbb-scheduler resume{own}")
        }
        Skip::NotSelected => "add it to the selection".to_owned(),
    }
}

/// The same for a row in flight whose task no longer exists.
pub(super) fn of_removed_task(view: &View<'_>, row: &TaskRow) -> String {
    if let Some(other) = of_other(view, row) {
        return format!("{other}; {}", other.remedy());
    }
    let text = in_flight(view, Some(row), None);
    match row.job_id {
        Some(_) => format!(
            "{text}; to cancel it: snbb-scheduler cancel{}",
            options(&row.key)
        ),
        None => text,
    }
}

pub(super) fn of_other<'a>(view: &View<'_>, row: &'a TaskRow) -> Option<OtherExecutor<'a>> {
    OtherExecutor::of(row, view.config.executor)
}

fn in_flight(view: &View<'_>, row: Option<&TaskRow>, pending_reason: Option<&str>) -> String {
    if let Some(text) = awaiting(view.config, row) {
        return format!("nothing yet; {text}");
    }
    let job = row.and_then(|row| row.job_id.as_ref());
    let job = job.map_or("JOB", |id| id.as_str());
    match row.and_then(|row| row.reason) {
        Some(Reason::Submitting) => IN_DOUBT.to_owned(),
        _ if view.queue.is_none() => UNKNOWN.to_owned(),
        Some(Reason::Held) => format!(
            "the job does not start by itself{}: release it (scontrol release {job}; an administrator, if one holds it), or \
             cancel it (scancel {job}) and correct its resource request",
            maybe(" (", pending_reason, ")")
        ),
        Some(Reason::Suspended) => "nothing; Slurm has suspended its job".to_owned(),
        Some(Reason::Unaccounted) => {
            "nothing yet; Slurm has not reported how its job ended. After lost_grace, its outputs decide".to_owned()
        }
        Some(Reason::Running) => "nothing; its job is running".to_owned(),
        _ => format!("nothing; its job is in the queue{}", maybe(" (", pending_reason, ")")),
    }
}

fn failed(
    view: &View<'_>,
    key: &TaskKey,
    row: Option<&TaskRow>,
    outlook: Outlook,
    is_complete: bool,
) -> String {
    if outlook.is_retry() {
        return format!("nothing; it {}", outlook_text(outlook));
    }
    let words = key.words();
    let remedy = row.and_then(|row| remedy(view.config, row));
    let mut text = match (row.and_then(|row| row.reason), remedy) {
        (_, Some(remedy)) => remedy,
        (Some(Reason::NoOutput), _) if !is_complete => {
            "compare the expected outputs with those the script writes".to_owned()
        }
        _ => format!("read its logs (snbb-scheduler logs {words})"),
    };
    let retry = format!("snbb-scheduler retry{}", options(key));
    text.push_str(&format!("; once the cause is fixed: {retry}"));
    if is_complete {
        text.push_str("; its outputs look complete: add --accept-outputs to accept them");
    }
    if view.config.resubmit_failed {
        text.push_str("; because of resubmit_failed, the next `run` will retry it automatically");
    }
    text
}

/// A sentence about the wait for the outputs of these rows. `None` if none is waiting.
pub fn awaiting<'a>(
    config: &Config,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Option<String> {
    let mut waiting: Vec<&TaskRow> = rows.into_iter().collect();
    waiting.retain(|row| row.reason == Some(Reason::AwaitingOutput));
    let jobs = match &waiting[..] {
        [] => return None,
        [one] => format!("the job of {}", one.key),
        all => format!("{} jobs", all.len()),
    };
    let last = waiting.iter().filter_map(|row| until(config, row)).max();
    let text = match last {
        Some((at, grace)) => format!(
            "waiting for outputs until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        None => "the outputs could not be checked yet".to_owned(),
    };
    Some(format!("{jobs} finished; {text}"))
}

/// End and length of the wait. `None` if the outputs could not be read yet.
fn until(config: &Config, row: &TaskRow) -> Option<(DateTime<Utc>, Duration)> {
    let since = row.missing_since?;
    let since = row.facts.ended_at.unwrap_or(since);
    let own = config.procedures.named(&row.key.procedure);
    let own = own.and_then(|own| own.output_grace);
    let grace = own.unwrap_or(config.output_grace);
    let at = since.checked_add_signed(chrono::Duration::from_std(grace).ok()?)?;
    Some((at, grace))
}

/// The options that select a task, each after a space.
pub fn options(key: &TaskKey) -> String {
    let options = [
        (" --subject ", &key.subject),
        (" --session ", &key.session),
        (" --procedure ", &key.procedure),
    ];
    let given = options.into_iter().filter(|(_, value)| !value.is_empty());
    given
        .map(|(option, value)| format!("{option}{value}"))
        .collect()
}

/// The remedy for a failed row with too little memory or time. `None` if it failed for another reason, its
/// procedure was removed, or the configuration already requests more.
pub fn remedy(config: &Config, row: &TaskRow) -> Option<String> {
    if row.status != TaskStatus::Failed {
        return None;
    }
    let procedure = config.procedures.named(&row.key.procedure)?;
    let resources = &procedure.resources;
    let (key, factor, asked, configured, text): (_, _, _, _, fn(u64) -> String) = match row.reason?
    {
        Reason::OutOfMemory => (
            "mem",
            "mem_factor",
            asked_mem(row, resources),
            requests::mem(resources).and_then(|mem| mem.bound()),
            |mb| MemSize::of_megabytes(mb).to_string(),
        ),
        Reason::Timeout => (
            "time",
            "time_factor",
            asked_time(row, resources),
            requests::time(resources).and_then(|time| time.bound()),
            |seconds| TimeLimit::of_seconds(seconds).to_string(),
        ),
        _ => return None,
    };
    // The configuration already requests more.
    if asked.is_some() && configured > asked {
        return None;
    }
    let now = maybe(" (was ", asked.map(text), ")");
    let place = config.file.as_deref().and_then(|file| file.file_name());
    let place = place.map_or("the configuration".into(), |name| name.to_string_lossy());
    let has_rule = (procedure.rules.retry.as_ref())
        .and_then(|retry| retry.on.get(&row.reason?))
        .is_some_and(|rule| match key {
            "mem" => rule.mem_factor.is_some(),
            _ => rule.time_factor.is_some(),
        });
    let factor = Some(factor).filter(|_| !has_rule);
    let rule = maybe(", or add a `retry` rule with `", factor, "`");
    Some(format!(
        "increase `{key}` of {} in {place}{now}{rule}: an unchanged retry would fail again",
        row.key.procedure
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Overrides;
    use crate::config::load::interpret;
    use crate::model::state::testing::row;

    fn config(rest: &str) -> Config {
        let text = format!(
            "procedures:\n  - {{name: p, output_dir: p, script: p.sh, completion_marker: x, {rest}}}\n"
        );
        let file = Some(Path::new("/study/c.yaml"));
        let none = |_: &str| None;
        let set = Overrides::default();
        interpret(text.as_bytes(), file, false, &none, &set, Path::new("/")).unwrap()
    }

    fn killed(reason: Reason) -> TaskRow {
        let mut row = row("p", TaskStatus::Failed, reason);
        row.facts.req_mem_mb = Some(100);
        row.facts.time_limit_s = Some(120);
        row
    }

    #[test]
    fn the_remedy_names_the_key_and_its_last_value() {
        let config = config("mem: 100M, time: '00:02:00'");
        assert_eq!(
            remedy(&config, &killed(Reason::OutOfMemory)).unwrap(),
            "increase `mem` of p in c.yaml (was 100M), or add a `retry` rule with `mem_factor`: an \
             unchanged retry would fail again"
        );
        let time = remedy(&config, &killed(Reason::Timeout)).unwrap();
        assert!(
            time.contains("`time`") && time.contains("`time_factor`"),
            "{time}"
        );
        assert_eq!(remedy(&config, &killed(Reason::ExitCode)), None);
    }

    #[test]
    fn an_existing_rule_is_not_proposed_and_an_increased_value_needs_no_remedy() {
        let ruled = config("mem: 100M, retry: {on: {out_of_memory: {mem_factor: 1.5}}}");
        let text = remedy(&ruled, &killed(Reason::OutOfMemory)).unwrap();
        assert!(!text.contains("mem_factor"), "{text}");
        let increased = config("mem: 200M");
        assert_eq!(remedy(&increased, &killed(Reason::OutOfMemory)), None);
    }
}
