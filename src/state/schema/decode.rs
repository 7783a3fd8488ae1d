//! An Arrow batch to rows. Pure.
//!
//! Files of this program have exactly the types of [`super::COLUMNS`]. Files of the Python program,
//! pandas, polars and others are taken as they are, as long as their meaning is certain; a row
//! that cannot be understood is an error, it never vanishes.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

use super::columns::{self, *};
use super::{COLUMNS, ReadError};
use crate::job::JobId;
use crate::state::{JobFacts, Reason, RetryState, TaskKey, TaskRow, TaskStatus};

/// Reads the batches of one file, in order.
pub struct Decoder {
    layout: Layout,
    /// False: the file was written by another program.
    own_file: bool,
    texts: Interner,
    first_row: usize,
    strange_reasons: BTreeMap<String, (usize, String)>,
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
        let subject = columns::text(self.array(batch, SUBJECT), SUBJECT, true, &mut self.texts)?;
        let session = columns::text(self.array(batch, SESSION), SESSION, true, &mut self.texts)?;
        let procedure = columns::text(
            self.array(batch, PROCEDURE),
            PROCEDURE,
            true,
            &mut self.texts,
        )?;
        let status = columns::text(self.array(batch, STATUS), STATUS, false, &mut self.texts)?;
        let submitted_at = columns::times(self.array(batch, SUBMITTED_AT), SUBMITTED_AT)?;
        let job_id = columns::text(self.array(batch, JOB_ID), JOB_ID, false, &mut self.texts)?;
        let reason = columns::text(self.array(batch, REASON), REASON, false, &mut self.texts)?;
        let attempt = columns::integers(self.array(batch, ATTEMPT), ATTEMPT)?;
        let slurm_state = columns::text(
            self.array(batch, SLURM_STATE),
            SLURM_STATE,
            true,
            &mut self.texts,
        )?;
        let exit_code = columns::text(
            self.array(batch, EXIT_CODE),
            EXIT_CODE,
            true,
            &mut self.texts,
        )?;
        let started_at = columns::times(self.array(batch, STARTED_AT), STARTED_AT)?;
        let ended_at = columns::times(self.array(batch, ENDED_AT), ENDED_AT)?;
        let updated_at = columns::times(self.array(batch, UPDATED_AT), UPDATED_AT)?;
        let missing_since = columns::times(self.array(batch, MISSING_SINCE), MISSING_SINCE)?;
        let node_list = columns::text(
            self.array(batch, NODE_LIST),
            NODE_LIST,
            true,
            &mut self.texts,
        )?;
        let req_mem_mb = columns::integers(self.array(batch, REQ_MEM_MB), REQ_MEM_MB)?;
        let max_rss_mb = columns::integers(self.array(batch, MAX_RSS_MB), MAX_RSS_MB)?;
        let time_limit_s = columns::integers(self.array(batch, TIME_LIMIT_S), TIME_LIMIT_S)?;
        let elapsed_s = columns::integers(self.array(batch, ELAPSED_S), ELAPSED_S)?;
        let cpu_time_s = columns::integers(self.array(batch, CPU_TIME_S), CPU_TIME_S)?;
        let alloc_cpus = columns::integers(self.array(batch, ALLOC_CPUS), ALLOC_CPUS)?;
        let job_name = columns::text(
            self.array(batch, JOB_NAME),
            JOB_NAME,
            false,
            &mut self.texts,
        )?;
        let cluster = columns::text(self.array(batch, CLUSTER), CLUSTER, true, &mut self.texts)?;
        let submission_id = columns::text(
            self.array(batch, SUBMISSION_ID),
            SUBMISSION_ID,
            false,
            &mut self.texts,
        )?;
        let replaces_outputs =
            columns::flags(self.array(batch, REPLACES_OUTPUTS), REPLACES_OUTPUTS)?;
        let retry_state = columns::text(
            self.array(batch, RETRY_STATE),
            RETRY_STATE,
            false,
            &mut self.texts,
        )?;
        let input_sessions = columns::text(
            self.array(batch, INPUT_SESSIONS),
            INPUT_SESSIONS,
            true,
            &mut self.texts,
        )?;
        let has_others = !self.layout.other_columns.is_empty();
        let empty: Arc<str> = self.texts.get("");

        rows.reserve(batch.num_rows());
        for at in 0..batch.num_rows() {
            let row = self.first_row + at;
            let indispensable = |column: &Texts, place| {
                column
                    .shared(at)
                    .ok_or_else(|| value_error(row, place, "null", "a text"))
            };
            let key = TaskKey {
                subject: indispensable(&subject, SUBJECT)?,
                session: session.shared(at).unwrap_or_else(|| Arc::clone(&empty)),
                procedure: indispensable(&procedure, PROCEDURE)?,
            };
            let word = status.get(at);
            let status = word.and_then(|word| word.parse().ok()).ok_or_else(|| {
                let shown = word.map_or_else(|| "null".to_owned(), |word| format!("'{word}'"));
                value_error(row, STATUS, &shown, "pending, running, complete or failed")
            })?;
            let optional = |column: &Texts| {
                column
                    .shared(at)
                    .filter(|text| self.own_file || !text.is_empty())
            };
            rows.push(TaskRow {
                status,
                submitted_at: submitted_at.get(at, row, SUBMITTED_AT)?,
                job_id: job_id.get(at).and_then(|text| self.job_id(text)),
                reason: match reason.get(at) {
                    Some(word) => parse_reason(
                        word,
                        status,
                        self.own_file,
                        &mut self.strange_reasons,
                        || format!("row {row}, {key}"),
                    ),
                    None => None,
                },
                attempt: match attempt.get(at, row, ATTEMPT)? {
                    Some(count) => Some(i32::try_from(count).map_err(|_| {
                        value_error(row, ATTEMPT, &count.to_string(), "a number of 32 bits")
                    })?),
                    None => None,
                },
                facts: JobFacts {
                    slurm_state: optional(&slurm_state),
                    exit_code: optional(&exit_code),
                    started_at: started_at.get(at, row, STARTED_AT)?,
                    ended_at: ended_at.get(at, row, ENDED_AT)?,
                    node_list: optional(&node_list),
                    req_mem_mb: req_mem_mb.get(at, row, REQ_MEM_MB)?,
                    max_rss_mb: max_rss_mb.get(at, row, MAX_RSS_MB)?,
                    time_limit_s: time_limit_s.get(at, row, TIME_LIMIT_S)?,
                    elapsed_s: elapsed_s.get(at, row, ELAPSED_S)?,
                    cpu_time_s: cpu_time_s.get(at, row, CPU_TIME_S)?,
                    alloc_cpus: alloc_cpus.get(at, row, ALLOC_CPUS)?,
                    cluster: optional(&cluster),
                },
                updated_at: updated_at.get(at, row, UPDATED_AT)?,
                missing_since: missing_since.get(at, row, MISSING_SINCE)?,
                job_name: optional(&job_name),
                submission_id: optional(&submission_id),
                replaces_outputs: replaces_outputs
                    .as_ref()
                    .and_then(|flags| flags.is_valid(at).then(|| flags.value(at))),
                retry: retry_state
                    .get(at)
                    .map(RetryState::from_text)
                    .unwrap_or_default(),
                input_sessions: optional(&input_sessions),
                other_columns: if has_others {
                    u32::try_from(row).ok()
                } else {
                    None
                },
                key,
            });
        }
        self.first_row += batch.num_rows();
        Ok(())
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

    fn array<'a>(&self, batch: &'a RecordBatch, place: usize) -> Option<&'a ArrayRef> {
        let at = self.layout.own.get(place).copied().flatten()?;
        batch.columns().get(at)
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
