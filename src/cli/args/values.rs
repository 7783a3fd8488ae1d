//! Reads the values of options.

use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::model::procedure::MemSize;
use crate::model::state::{Reason, TaskStatus, UnknownWord};
use crate::show::graph::Language;
use crate::show::tables::{RowOrder, SessionOrder, Standing};

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::config::duration::parse(text).map_err(|error| error.to_string())
}

pub(super) fn mem(text: &str) -> Result<MemSize, String> {
    MemSize::parse(text).map_err(|error| error.to_string())
}

pub(super) fn status() -> impl TypedValueParser<Value = TaskStatus> {
    one_of(TaskStatus::ALL.map(TaskStatus::as_str))
}

pub(super) fn reason() -> impl TypedValueParser<Value = Reason> {
    one_of(Reason::ALL.iter().map(|reason| reason.as_str()))
}

pub(super) fn row_order() -> impl TypedValueParser<Value = RowOrder> {
    one_of(RowOrder::ALL.map(RowOrder::as_str))
}

pub(super) fn session_order() -> impl TypedValueParser<Value = SessionOrder> {
    one_of(SessionOrder::ALL.map(SessionOrder::as_str))
}

pub(super) fn standing() -> impl TypedValueParser<Value = Standing> {
    one_of(Standing::ALL.map(Standing::as_str))
}

pub(super) fn language() -> impl TypedValueParser<Value = Language> {
    one_of(Language::ALL.map(Language::as_str))
}

fn one_of<T>(words: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownWord> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::cli::args::Cli;

    #[test]
    fn attack_a_word_of_another_command_is_answered_with_that_command() {
        for (word, tip) in [
            ("bloked", "session-status --status blocked"),
            ("faild", "'failed'"),
        ] {
            let line = ["snbb-scheduler", "status", "--status", word];
            let error = Cli::try_parse_from(line).unwrap_err().to_string();
            assert!(error.contains(tip), "{error}");
        }
    }
}
