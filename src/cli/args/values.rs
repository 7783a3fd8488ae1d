//! Parsers of option values.

use std::str::FromStr;
use std::time::Duration;

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, TimeZone as _, Utc};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::base::sys;
use crate::config::duration::parse;
use crate::model::state::{Reason, TaskStatus, UnknownWord};
use crate::show::tables::TaskState;

/// Shortest interval between two queries of Slurm.
pub const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The pause between two queries of Slurm.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        interval if interval >= MIN_INTERVAL => Ok(interval),
        _ => Err("expected at least 1s, because each repetition queries Slurm".to_owned()),
    }
}

/// Whole seconds, at least one.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = whole::<u32>(text).ok().filter(|seconds| *seconds > 0);
    let pause = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    pause.ok_or_else(|| "expected a whole number of seconds, at least 1".to_owned())
}

/// A whole number that is not negative.
pub(super) fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok();
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| "expected a whole number".to_owned())
}

/// A past point in time: a duration before now, a date, or a date and time, in local time unless an offset is given.
pub(super) fn since(text: &str) -> Result<DateTime<Utc>, String> {
    let now = sys::now();
    let at = parse(text).ok().map(|ago| now - ago);
    let at = at.or_else(|| point(text, now)).ok_or(
        "expected a duration (24h), 'today', 'yesterday' or a date (2026-01-31, 2026-01-31T14:00)",
    )?;
    match at <= now {
        true => Ok(at),
        false => Err("is in the future".to_owned()),
    }
}

fn point(text: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at.to_utc());
    }
    let today = now.with_timezone(&Local).date_naive();
    let local = match text {
        "today" => today.into(),
        "yesterday" => today.pred_opt()?.into(),
        date => NaiveDate::from_str(date)
            .map(NaiveDateTime::from)
            .or_else(|_| NaiveDateTime::parse_from_str(date, "%Y-%m-%dT%H:%M"))
            .or_else(|_| NaiveDateTime::parse_from_str(date, "%Y-%m-%dT%H:%M:%S"))
            .ok()?,
    };
    Some(Local.from_local_datetime(&local).earliest()?.to_utc())
}

/// A decision word, or its short form, which narrow terminals show.
pub(super) fn task_state() -> impl TypedValueParser<Value = TaskState> {
    let values =
        TaskState::ALL.map(|state| PossibleValue::new(state.as_str()).alias(state.style().short));
    PossibleValuesParser::new(values)
        .try_map(|word| TaskState::of_cell(&word).ok_or("unknown status"))
}

/// A reason; offers only those of failures.
pub(super) fn failure() -> impl TypedValueParser<Value = Reason> {
    let values = Reason::ALL
        .iter()
        .map(|reason| PossibleValue::new(reason.as_str()).hide(!reason.fits(TaskStatus::Failed)));
    PossibleValuesParser::new(values).try_map(|word| word.parse())
}

pub(super) fn one_of<T>(
    values: impl IntoIterator<Item = &'static str>,
) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownWord> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(values).try_map(|word| word.parse())
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Local, Utc};
    use clap::{CommandFactory as _, Parser as _};

    use super::since;
    use crate::cli::args::{Cli, Command};
    use crate::show::tables::TaskState;

    #[test]
    fn points_in_time_are_durations_days_and_dates() {
        let local = |at: DateTime<Utc>| at.with_timezone(&Local).format("%F %T").to_string();
        let day = since("2026-01-31").unwrap();
        assert_eq!(local(day), "2026-01-31 00:00:00");
        assert_eq!(
            local(since("2026-01-31T14:05").unwrap()),
            "2026-01-31 14:05:00"
        );
        let utc = since("2026-01-31T14:05:06Z").unwrap();
        assert_eq!(utc.to_rfc3339(), "2026-01-31T14:05:06+00:00");
        let (today, yesterday) = (since("today").unwrap(), since("yesterday").unwrap());
        assert!(yesterday < today && local(yesterday).ends_with("00:00:00"));
        assert!(since("1h").unwrap() > since("25h").unwrap());
        for text in ["2999-01-01", "31.01.2026", "last week", "", "2026-02-30"] {
            let error = since(text).unwrap_err();
            assert!(
                error.contains(if text.starts_with("29") {
                    "future"
                } else {
                    "expected"
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_and_intervals_name_what_is_expected() {
        let mut found = 0;
        for command in Cli::command().get_subcommands() {
            for arg in command.get_opts() {
                let names = arg.get_value_names().unwrap_or_default();
                if let Some(long) = arg.get_long()
                    && names
                        .iter()
                        .any(|name| ["N", "SECONDS"].contains(&name.as_str()))
                {
                    let option = format!("--{long}=-1.5");
                    let line = ["snbb-scheduler", command.get_name(), &option, "sub-01"];
                    let error = Cli::try_parse_from(line).unwrap_err().to_string();
                    assert!(error.contains("expected a whole number"), "{error}");
                    found += 1;
                }
            }
        }
        assert!(found > 5, "{found}");
        for line in [["wait", "--interval=0s"], ["run", "--watch=0s"]] {
            let line = ["snbb-scheduler"].into_iter().chain(line);
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains("at least 1s"), "{error}");
        }
    }

    #[test]
    fn a_retry_offers_the_reasons_of_failures_and_accepts_all() {
        let parse = |reason| Cli::try_parse_from(["snbb-scheduler", "retry", "--reason", reason]);
        let error = parse("foo").unwrap_err().to_string();
        assert!(
            error.contains("timeout") && !error.contains("running"),
            "{error}"
        );
        assert!(parse("running").is_ok());
    }

    #[test]
    fn short_forms_of_decision_words_are_understood() {
        for state in TaskState::ALL {
            for word in [state.as_str(), state.style().short] {
                let line = ["snbb-scheduler", "session-status", "--status", word];
                let Command::SessionStatus(args) = Cli::try_parse_from(line).unwrap().command
                else {
                    panic!("{word}");
                };
                assert_eq!(args.statuses, [state], "{word}");
            }
        }
    }
}
