//! Reads the values of options.

use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::procedure::MemSize;
use crate::state::{Reason, TaskStatus, UnknownWord};
use crate::tables::words::WORDS;
use crate::tables::{RowOrder, SessionOrder};

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

pub(super) fn decision_word() -> impl TypedValueParser<Value = &'static str> {
    let parser = PossibleValuesParser::new(WORDS);
    parser.map(|text| {
        WORDS
            .into_iter()
            .find(|word| *word == text)
            .unwrap_or_default()
    })
}

fn one_of<T>(words: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownWord> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| word.parse())
}
