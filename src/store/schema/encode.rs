//! Rows to an Arrow batch. Pure.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Int32Builder, Int64Builder, StringBuilder,
    TimestampMicrosecondBuilder, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use chrono::{DateTime, Utc};

use crate::model::state::TaskRow;

/// Makes a batch of rows. `schema` is [`super::schema_with`] of the columns in `other_columns`.
pub fn batch(
    rows: &[&TaskRow],
    other_columns: Option<&RecordBatch>,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let mut own = Builders::with_capacity(rows.len());
    for row in rows {
        own.push(row);
    }
    let mut columns = own.finish();
    if let Some(other_columns) = other_columns {
        let lines: UInt32Array = rows.iter().map(|row| row.other_columns).collect();
        for column in other_columns.columns() {
            columns.push(take(column.as_ref(), &lines, None)?);
        }
    }
    RecordBatch::try_new(Arc::clone(schema), columns)
}

struct Builders {
    subject: StringBuilder,
    session: StringBuilder,
    procedure: StringBuilder,
    status: StringBuilder,
    submitted_at: TimestampMicrosecondBuilder,
    job_id: StringBuilder,
    reason: StringBuilder,
    attempt: Int32Builder,
    slurm_state: StringBuilder,
    exit_code: StringBuilder,
    started_at: TimestampMicrosecondBuilder,
    ended_at: TimestampMicrosecondBuilder,
    updated_at: TimestampMicrosecondBuilder,
    missing_since: TimestampMicrosecondBuilder,
    node_list: StringBuilder,
    req_mem_mb: Int64Builder,
    max_rss_mb: Int64Builder,
    time_limit_s: Int64Builder,
    elapsed_s: Int64Builder,
    cpu_time_s: Int64Builder,
    alloc_cpus: Int64Builder,
    job_name: StringBuilder,
    cluster: StringBuilder,
    submission_id: StringBuilder,
    replaces_outputs: BooleanBuilder,
    retry_state: StringBuilder,
    input_sessions: StringBuilder,
}

impl Builders {
    fn with_capacity(n: usize) -> Self {
        let text = |bytes_per_row: usize| StringBuilder::with_capacity(n, n * bytes_per_row);
        let time = || TimestampMicrosecondBuilder::with_capacity(n).with_timezone("UTC");
        Self {
            subject: text(12),
            session: text(20),
            procedure: text(12),
            status: text(8),
            submitted_at: time(),
            job_id: text(10),
            reason: text(10),
            attempt: Int32Builder::with_capacity(n),
            slurm_state: text(10),
            exit_code: text(4),
            started_at: time(),
            ended_at: time(),
            updated_at: time(),
            missing_since: time(),
            node_list: text(8),
            req_mem_mb: Int64Builder::with_capacity(n),
            max_rss_mb: Int64Builder::with_capacity(n),
            time_limit_s: Int64Builder::with_capacity(n),
            elapsed_s: Int64Builder::with_capacity(n),
            cpu_time_s: Int64Builder::with_capacity(n),
            alloc_cpus: Int64Builder::with_capacity(n),
            job_name: text(40),
            cluster: text(8),
            submission_id: text(20),
            replaces_outputs: BooleanBuilder::with_capacity(n),
            retry_state: text(0),
            input_sessions: text(0),
        }
    }

    fn push(&mut self, row: &TaskRow) {
        // Taken apart in full, so that a new field cannot be forgotten here.
        let TaskRow {
            key,
            status,
            submitted_at,
            job_id,
            reason,
            attempt,
            facts,
            updated_at,
            missing_since,
            job_name,
            submission_id,
            replaces_outputs,
            retry,
            input_sessions,
            other_columns: _,
        } = row;
        let crate::model::state::JobFacts {
            slurm_state,
            exit_code,
            started_at,
            ended_at,
            node_list,
            req_mem_mb,
            max_rss_mb,
            time_limit_s,
            elapsed_s,
            cpu_time_s,
            alloc_cpus,
            cluster,
        } = facts;
        self.subject.append_value(&key.subject);
        self.session.append_value(&key.session);
        self.procedure.append_value(&key.procedure);
        self.status.append_value(status.as_str());
        self.submitted_at.append_option(micros(submitted_at));
        self.job_id
            .append_option(job_id.as_ref().map(|id| id.as_str()));
        self.reason.append_option(reason.map(|word| word.as_str()));
        self.attempt.append_option(*attempt);
        self.slurm_state.append_option(slurm_state.as_deref());
        self.exit_code.append_option(exit_code.as_deref());
        self.started_at.append_option(micros(started_at));
        self.ended_at.append_option(micros(ended_at));
        self.updated_at.append_option(micros(updated_at));
        self.missing_since.append_option(micros(missing_since));
        self.node_list.append_option(node_list.as_deref());
        self.req_mem_mb.append_option(*req_mem_mb);
        self.max_rss_mb.append_option(*max_rss_mb);
        self.time_limit_s.append_option(*time_limit_s);
        self.elapsed_s.append_option(*elapsed_s);
        self.cpu_time_s.append_option(*cpu_time_s);
        self.alloc_cpus.append_option(*alloc_cpus);
        self.job_name.append_option(job_name.as_deref());
        self.cluster.append_option(cluster.as_deref());
        self.submission_id.append_option(submission_id.as_deref());
        self.replaces_outputs.append_option(*replaces_outputs);
        self.retry_state.append_option(retry.to_text());
        self.input_sessions.append_option(input_sessions.as_deref());
    }

    /// Returns the columns in the order of [`super::COLUMNS`].
    fn finish(mut self) -> Vec<ArrayRef> {
        vec![
            Arc::new(self.subject.finish()),
            Arc::new(self.session.finish()),
            Arc::new(self.procedure.finish()),
            Arc::new(self.status.finish()),
            Arc::new(self.submitted_at.finish()),
            Arc::new(self.job_id.finish()),
            Arc::new(self.reason.finish()),
            Arc::new(self.attempt.finish()),
            Arc::new(self.slurm_state.finish()),
            Arc::new(self.exit_code.finish()),
            Arc::new(self.started_at.finish()),
            Arc::new(self.ended_at.finish()),
            Arc::new(self.updated_at.finish()),
            Arc::new(self.missing_since.finish()),
            Arc::new(self.node_list.finish()),
            Arc::new(self.req_mem_mb.finish()),
            Arc::new(self.max_rss_mb.finish()),
            Arc::new(self.time_limit_s.finish()),
            Arc::new(self.elapsed_s.finish()),
            Arc::new(self.cpu_time_s.finish()),
            Arc::new(self.alloc_cpus.finish()),
            Arc::new(self.job_name.finish()),
            Arc::new(self.cluster.finish()),
            Arc::new(self.submission_id.finish()),
            Arc::new(self.replaces_outputs.finish()),
            Arc::new(self.retry_state.finish()),
            Arc::new(self.input_sessions.finish()),
        ]
    }
}

fn micros(time: &Option<DateTime<Utc>>) -> Option<i64> {
    time.as_ref().map(DateTime::timestamp_micros)
}
