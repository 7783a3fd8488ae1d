//! The columns of the state file, one line per column.
//!
//! The state file, the keys of the audit log, `state repair` and the tables for people loop over [`COLUMNS`]. A new
//! column is a line here and its field.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Reason, RetryState, TaskRow, TaskStatus};
use crate::model::job::JobId;

/// One column, and the field of a row that it contains.
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub about: About,
    /// `None` for null.
    pub get: for<'a> fn(&'a TaskRow) -> Option<Value<'a>>,
    /// Returns false, and changes nothing, if the field cannot hold the value.
    pub set: fn(&mut TaskRow, &Value<'_>) -> bool,
}

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text, never null.
    Label,
    Status,
    Reason,
    JobId,
    /// Text with values shared by many rows.
    Text,
    /// Text that differs from row to row.
    UniqueText,
    /// A JSON object.
    Json,
    /// Microseconds since 1970, UTC.
    Time,
    Int32,
    Int64,
    Flag,
}

/// What a column describes. Determines which of two sources wins if they disagree about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The row: the later source wins.
    Row,
    /// The submission: the first source wins.
    Submission,
    /// The job: the later source wins, but does not delete values.
    Job,
    /// The end of the job: like `Job`, and cleared while the job is alive again.
    End,
}

/// One value. Texts shared between rows stay shared.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Shared(&'a Arc<str>),
    Text(Cow<'a, str>),
    Time(DateTime<Utc>),
    Number(i64),
    Flag(bool),
}

macro_rules! columns {
    ($($name:literal: $kind:ident, $about:ident, $($field:ident).+;)*) => {
        /// All columns in the order of the file. The first six never change, because users' scripts rely on them.
        pub static COLUMNS: &[Column] = &[$(Column {
            name: $name,
            kind: Kind::$kind,
            about: About::$about,
            get: |row| row.$($field).+.get(),
            set: |row, value| row.$($field).+.set(value),
        }),*];
    };
}

columns! {
    "subject": Label, Row, key.subject;
    "session": Text, Row, key.session;
    "procedure": Label, Row, key.procedure;
    "status": Status, Row, status;
    "submitted_at": Time, Submission, submitted_at;
    "job_id": JobId, Job, job_id;
    "reason": Reason, Row, reason;
    "attempt": Int32, Submission, attempt;
    "slurm_state": Text, Job, facts.slurm_state;
    "exit_code": Text, End, facts.exit_code;
    "started_at": Time, Job, facts.started_at;
    "ended_at": Time, End, facts.ended_at;
    "updated_at": Time, Row, updated_at;
    "missing_since": Time, Row, missing_since;
    "node_list": Text, Job, facts.node_list;
    "req_mem_mb": Int64, Job, facts.req_mem_mb;
    "max_rss_mb": Int64, Job, facts.max_rss_mb;
    "time_limit_s": Int64, Job, facts.time_limit_s;
    "elapsed_s": Int64, Job, facts.elapsed_s;
    "cpu_time_s": Int64, Job, facts.cpu_time_s;
    "alloc_cpus": Int64, Job, facts.alloc_cpus;
    "job_name": UniqueText, Submission, job_name;
    "cluster": Text, Job, facts.cluster;
    "submission_id": UniqueText, Submission, submission_id;
    "replaces_outputs": Flag, Submission, replaces_outputs;
    "retry_state": Json, Submission, retry;
    "input_sessions": Text, Submission, input_sessions;
    "partition": Text, Job, facts.partition;
    "account": Text, Job, facts.account;
    "qos": Text, Job, facts.qos;
    "req_cpus": Int64, Job, facts.req_cpus;
    "exit_status": Int64, End, facts.exit_status;
    "signal": Int64, End, facts.signal;
}

impl TaskRow {
    /// Copies values from another row of the task. `takes` selects columns by what they describe and whether
    /// this row has a value. Null does not overwrite a value.
    pub fn take_from(&mut self, other: &Self, takes: impl Fn(About, bool) -> bool) {
        for column in COLUMNS {
            if takes(column.about, (column.get)(self).is_some())
                && let Some(value) = (column.get)(other)
            {
                (column.set)(self, &value);
            }
        }
    }
}

macro_rules! values {
    ($($name:ident: $kind:ident($type:ty);)*) => {$(
        pub fn $name(&self) -> Option<$type> {
            match self {
                Self::$kind(value) => Some(*value),
                _ => None,
            }
        }
    )*};
}

impl Value<'_> {
    /// `None` if not a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Shared(text) => Some(text),
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn shared(&self) -> Option<Arc<str>> {
        match self {
            Self::Shared(text) => Some(Arc::clone(text)),
            _ => self.text().map(Arc::from),
        }
    }

    values! {
        time: Time(DateTime<Utc>);
        number: Number(i64);
        flag: Flag(bool);
    }
}

/// A field of a row.
trait Field {
    fn get(&self) -> Option<Value<'_>>;
    fn set(&mut self, value: &Value<'_>) -> bool;
}

macro_rules! fields {
    ($($type:ty: |$field:ident| $get:expr, |$value:ident| $new:expr;)*) => {$(
        impl Field for $type {
            fn get(&self) -> Option<Value<'_>> {
                let $field = self;
                $get
            }

            fn set(&mut self, $value: &Value<'_>) -> bool {
                let new: Option<Self> = $new;
                new.map(|new| *self = new).is_some()
            }
        }
    )*};
}

fn word(text: &str) -> Option<Value<'_>> {
    Some(Value::Text(Cow::Borrowed(text)))
}

fields! {
    Arc<str>: |text| Some(Value::Shared(text)), |value| value.shared();
    Option<Arc<str>>: |text| text.as_ref().map(Value::Shared), |value| value.shared().map(Some);
    TaskStatus: |status| word(status.as_str()), |value| value.text().and_then(|word| word.parse().ok());
    Option<Reason>: |reason| word(reason.as_ref()?.as_str()), |value| value.text().and_then(|word| word.parse().ok()).map(Some);
    Option<JobId>: |id| word(id.as_ref()?.as_str()), |value| value.text().map(JobId::new).map(Some);
    RetryState: |state| state.to_text().map(Cow::Owned).map(Value::Text), |value| value.text().map(RetryState::from_text);
    Option<DateTime<Utc>>: |time| time.map(Value::Time), |value| value.time().map(Some);
    Option<i32>: |number| number.map(|number| Value::Number(number.into())),
        |value| value.number().and_then(|number| i32::try_from(number).ok()).map(Some);
    Option<i64>: |number| number.map(Value::Number), |value| value.number().map(Some);
    Option<bool>: |flag| flag.map(Value::Flag), |value| value.flag().map(Some);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::state::TaskKey;
    use crate::model::state::testing::at;

    /// A row with a different value in each column.
    pub fn full_row() -> TaskRow {
        let mut row = TaskRow::new(TaskKey::new("", "", ""), TaskStatus::Pending);
        for (number, column) in (1..).zip(COLUMNS) {
            let value = match column.kind {
                Kind::Status => Value::Text("failed".into()),
                Kind::Reason => Value::Text("no_output".into()),
                Kind::Json => Value::Text(
                    r#"{"retries":1,"infrastructure":2,"mem_mb":3,"time_s":4,"exclude":["n"]}"#
                        .into(),
                ),
                Kind::Time => Value::Time(at(number)),
                Kind::Int32 | Kind::Int64 => Value::Number(number),
                Kind::Flag => Value::Flag(true),
                Kind::Label | Kind::Text | Kind::UniqueText | Kind::JobId => {
                    Value::Text(format!("{} {number}", column.name).into())
                }
            };
            assert!((column.set)(&mut row, &value), "{}", column.name);
            let text = |value: &Value<'_>| value.text().map(str::to_owned);
            let got = (column.get)(&row).unwrap();
            assert_eq!(text(&got), text(&value), "{}", column.name);
            assert_eq!(got.time(), value.time(), "{}", column.name);
            assert_eq!(got.number(), value.number(), "{}", column.name);
        }
        row
    }

    #[test]
    fn every_field_of_a_row_has_a_column() {
        let text = format!("{:?}", full_row());
        assert_eq!(text.matches("None").count(), 1, "{text}");
        assert!(text.contains("other_columns: None"), "{text}");
    }

    #[test]
    fn a_value_of_the_wrong_type_changes_nothing() {
        let before = full_row();
        for column in COLUMNS {
            let mut row = before.clone();
            let wrong = match column.kind {
                Kind::Status | Kind::Reason => Value::Text("else".into()),
                Kind::Int32 => Value::Number(1 << 40),
                Kind::Int64 | Kind::Time | Kind::Flag => Value::Text("1".into()),
                _ => Value::Number(1),
            };
            assert!(!(column.set)(&mut row, &wrong), "{}", column.name);
            assert_eq!(row, before, "{}", column.name);
        }
    }
}
