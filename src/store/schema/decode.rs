//! An Arrow batch to rows. Pure.
//!
//! Files of this program have exactly the types of [`super::COLUMNS`]. Files of the Python program,
//! pandas, polars and others are taken as they are, as long as their meaning is certain; a row
//! that cannot be understood is an error, it never vanishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::columns::{self, *};
use super::{COLUMNS, ReadError};
use crate::model::job::JobId;
use crate::model::state::{JobFacts, Reason, RetryState, TaskKey, TaskRow, TaskStatus};

/// Reads the batches of one file, in order.
pub struct Decoder {
    layout: Layout,
    /// False: the file was written by another program.
    own_file: bool,
    texts: Interner,
    first_row: usize,
    strange_reasons: BTreeMap<String, (usize, String)>,
}

/// Holds the columns of one batch.
struct Columns {
    subject: Texts,
    session: Texts,
    procedure: Texts,
    status: Texts,
    submitted_at: Times,
    job_id: Texts,
    reason: Texts,
    attempt: Integers,
    slurm_state: Texts,
    exit_code: Texts,
    started_at: Times,
    ended_at: Times,
    updated_at: Times,
    missing_since: Times,
    node_list: Texts,
    req_mem_mb: Integers,
    max_rss_mb: Integers,
    time_limit_s: Integers,
    elapsed_s: Integers,
    cpu_time_s: Integers,
    alloc_cpus: Integers,
    job_name: Texts,
    cluster: Texts,
    submission_id: Texts,
    replaces_outputs: Option<BooleanArray>,
    retry_state: Texts,
    input_sessions: Texts,
    empty: Arc<str>,
}

/// Says where the columns stand.
pub struct Layout {
    own: [Option<usize>; COLUMNS.len()],
    /// Columns that are not ours; an index that pandas has saved is left out.
    other_columns: Vec<usize>,
}

impl Layout {
    pub fn of(schema: &Schema) -> Result<Self, ReadError> {
        let mut own = [None; COLUMNS.len()];
        let mut other_columns = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let name = field.name();
            match COLUMNS.iter().position(|(own, _)| own == name) {
                Some(place) => {
                    if let Some(slot) = own.get_mut(place)
                        && slot.replace(at).is_some()
                    {
                        return Err(ReadError::DoubledColumn(column_name(place)));
                    }
                }
                None if name.starts_with("__index_level_") => {}
                None => other_columns.push(at),
            }
        }
        for needed in [SUBJECT, PROCEDURE, STATUS] {
            if own.get(needed).copied().flatten().is_none() {
                return Err(ReadError::MissingColumn {
                    column: column_name(needed),
                    found: schema.fields().iter().map(|f| f.name().clone()).collect(),
                });
            }
        }
        Ok(Self { own, other_columns })
    }
}

impl Columns {
    fn of(batch: &RecordBatch, layout: &Layout, texts: &mut Interner) -> Result<Self, ReadError> {
        let array = |place: usize| {
            let at = layout.own.get(place).copied().flatten()?;
            batch.columns().get(at)
        };
        let mut text = |place, repeats| columns::text(array(place), place, repeats, texts);
        Ok(Self {
            subject: text(SUBJECT, true)?,
            session: text(SESSION, true)?,
            procedure: text(PROCEDURE, true)?,
            status: text(STATUS, false)?,
            submitted_at: columns::times(array(SUBMITTED_AT), SUBMITTED_AT)?,
            job_id: text(JOB_ID, false)?,
            reason: text(REASON, false)?,
            attempt: columns::integers(array(ATTEMPT), ATTEMPT)?,
            slurm_state: text(SLURM_STATE, true)?,
            exit_code: text(EXIT_CODE, true)?,
            started_at: columns::times(array(STARTED_AT), STARTED_AT)?,
            ended_at: columns::times(array(ENDED_AT), ENDED_AT)?,
            updated_at: columns::times(array(UPDATED_AT), UPDATED_AT)?,
            missing_since: columns::times(array(MISSING_SINCE), MISSING_SINCE)?,
            node_list: text(NODE_LIST, true)?,
            req_mem_mb: columns::integers(array(REQ_MEM_MB), REQ_MEM_MB)?,
            max_rss_mb: columns::integers(array(MAX_RSS_MB), MAX_RSS_MB)?,
            time_limit_s: columns::integers(array(TIME_LIMIT_S), TIME_LIMIT_S)?,
            elapsed_s: columns::integers(array(ELAPSED_S), ELAPSED_S)?,
            cpu_time_s: columns::integers(array(CPU_TIME_S), CPU_TIME_S)?,
            alloc_cpus: columns::integers(array(ALLOC_CPUS), ALLOC_CPUS)?,
            job_name: text(JOB_NAME, false)?,
            cluster: text(CLUSTER, true)?,
            submission_id: text(SUBMISSION_ID, false)?,
            replaces_outputs: columns::flags(array(REPLACES_OUTPUTS), REPLACES_OUTPUTS)?,
            retry_state: text(RETRY_STATE, false)?,
            input_sessions: text(INPUT_SESSIONS, true)?,
            empty: texts.get(""),
        })
    }
}

impl Decoder {
    pub fn new(layout: Layout, own_file: bool) -> Self {
        Self {
            layout,
            own_file,
            texts: Interner::default(),
            first_row: 0,
            strange_reasons: BTreeMap::new(),
        }
    }

    /// Appends the rows of a batch. Each gets its line in the table of columns of others, if there
    /// are any.
    pub fn append(
        &mut self,
        batch: &RecordBatch,
        rows: &mut Vec<TaskRow>,
    ) -> Result<(), ReadError> {
        let columns = Columns::of(batch, &self.layout, &mut self.texts)?;
        rows.reserve(batch.num_rows());
        for at in 0..batch.num_rows() {
            rows.push(self.row(&columns, at)?);
        }
        self.first_row += batch.num_rows();
        Ok(())
    }

    /// Makes the row at this place of a batch.
    fn row(&mut self, columns: &Columns, at: usize) -> Result<TaskRow, ReadError> {
        let row = self.first_row + at;
        let indispensable = |column: &Texts, place| {
            column
                .shared(at)
                .ok_or_else(|| value_error(row, place, "null", "a text"))
        };
        let key = TaskKey {
            subject: indispensable(&columns.subject, SUBJECT)?,
            session: columns
                .session
                .shared(at)
                .unwrap_or_else(|| Arc::clone(&columns.empty)),
            procedure: indispensable(&columns.procedure, PROCEDURE)?,
        };
        let word = columns.status.get(at);
        let status = word.and_then(|word| word.parse().ok()).ok_or_else(|| {
            let shown = word.map_or_else(|| "null".to_owned(), |word| format!("'{word}'"));
            value_error(row, STATUS, &shown, "pending, running, complete or failed")
        })?;
        let own_file = self.own_file;
        let optional = |column: &Texts| {
            column
                .shared(at)
                .filter(|text| own_file || !text.is_empty())
        };
        Ok(TaskRow {
            status,
            submitted_at: columns.submitted_at.get(at, row, SUBMITTED_AT)?,
            job_id: columns.job_id.get(at).and_then(|text| self.job_id(text)),
            reason: match columns.reason.get(at) {
                Some(word) => parse_reason(
                    word,
                    status,
                    self.own_file,
                    &mut self.strange_reasons,
                    || format!("row {row}, {key}"),
                ),
                None => None,
            },
            attempt: match columns.attempt.get(at, row, ATTEMPT)? {
                Some(count) => Some(i32::try_from(count).map_err(|_| {
                    value_error(row, ATTEMPT, &count.to_string(), "a number of 32 bits")
                })?),
                None => None,
            },
            facts: JobFacts {
                slurm_state: optional(&columns.slurm_state),
                exit_code: optional(&columns.exit_code),
                started_at: columns.started_at.get(at, row, STARTED_AT)?,
                ended_at: columns.ended_at.get(at, row, ENDED_AT)?,
                node_list: optional(&columns.node_list),
                req_mem_mb: columns.req_mem_mb.get(at, row, REQ_MEM_MB)?,
                max_rss_mb: columns.max_rss_mb.get(at, row, MAX_RSS_MB)?,
                time_limit_s: columns.time_limit_s.get(at, row, TIME_LIMIT_S)?,
                elapsed_s: columns.elapsed_s.get(at, row, ELAPSED_S)?,
                cpu_time_s: columns.cpu_time_s.get(at, row, CPU_TIME_S)?,
                alloc_cpus: columns.alloc_cpus.get(at, row, ALLOC_CPUS)?,
                cluster: optional(&columns.cluster),
            },
            updated_at: columns.updated_at.get(at, row, UPDATED_AT)?,
            missing_since: columns.missing_since.get(at, row, MISSING_SINCE)?,
            job_name: optional(&columns.job_name),
            submission_id: optional(&columns.submission_id),
            replaces_outputs: columns
                .replaces_outputs
                .as_ref()
                .and_then(|flags| flags.is_valid(at).then(|| flags.value(at))),
            retry: columns
                .retry_state
                .get(at)
                .map(RetryState::from_text)
                .unwrap_or_default(),
            input_sessions: optional(&columns.input_sessions),
            other_columns: if self.layout.other_columns.is_empty() {
                None
            } else {
                u32::try_from(row).ok()
            },
            key,
        })
    }

    /// Returns what a person should hear of.
    pub fn warnings(self) -> Vec<String> {
        self.strange_reasons
            .into_iter()
            .map(|(word, (count, first))| {
                let rows = if count == 1 { "row" } else { "rows" };
                format!("{count} {rows} with {word} (first: {first}): read without a reason")
            })
            .collect()
    }

    fn job_id(&self, text: &str) -> Option<JobId> {
        if self.own_file {
            return Some(JobId::new(text));
        }
        let text = text.trim();
        if is_null_word(text) {
            return None;
        }
        // Numbers with empty places become floats in pandas, and these become texts.
        Some(JobId::new(match text.strip_suffix(".0") {
            Some(whole) if whole.bytes().all(|byte| byte.is_ascii_digit()) => whole,
            _ => text,
        }))
    }
}

fn parse_reason(
    word: &str,
    status: TaskStatus,
    own_file: bool,
    strange: &mut BTreeMap<String, (usize, String)>,
    place: impl Fn() -> String,
) -> Option<Reason> {
    let mut complain = |text: String| {
        strange.entry(text).or_insert_with(|| (0, place())).0 += 1;
        None
    };
    match word.parse::<Reason>() {
        Ok(reason) if own_file || reason.fits(status) => Some(reason),
        // A script has set the status by hand; the reason told of the one before.
        Ok(reason) => complain(format!(
            "status {status} and reason '{reason}', which do not go together"
        )),
        Err(_) if is_null_word(word.trim()) => None,
        Err(_) => complain(format!("the unknown reason '{word}'")),
    }
}

/// Returns the columns that are not ours. None: there are none.
pub fn part_of_others(
    batch: &RecordBatch,
    decoder: &Decoder,
) -> Result<Option<RecordBatch>, ArrowError> {
    if decoder.layout.other_columns.is_empty() {
        return Ok(None);
    }
    batch.project(&decoder.layout.other_columns).map(Some)
}
