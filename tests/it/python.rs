//! pandas, pyarrow, polars and DuckDB read our state file, and we read what they write.
//! Without a Python that has them (`scripts/python-env`) these tests say SKIPPED, loudly.
#![expect(
    clippy::disallowed_methods,
    reason = "starts Python, which reads and writes the files"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use snbb_scheduler::model::state::{TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::store::state_file::{StateError, Store};

use super::state::{bare_row, full_row, locked, saved, time};

/// Returns the interpreter of an environment of `scripts/python-env`. None: it cannot be made here.
pub fn environment(name: &str) -> Option<PathBuf> {
    let output = Command::new("scripts/python-env").arg(name).output().ok()?;
    if !output.status.success() {
        eprintln!("SKIPPED: scripts/python-env {name} cannot make its environment");
        return None;
    }
    let path = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(path.trim()))
}

/// Returns the interpreter with the table libraries. None: there is none.
pub fn python() -> Option<&'static Path> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    PYTHON.get_or_init(|| environment("tables")).as_deref()
}

/// Runs a script with the state's path as `path`, and checks that it went well.
pub fn run(python: &Path, path: &Path, script: &str) -> String {
    let output = Command::new(python)
        .args(["-W", "error::DeprecationWarning", "-c"])
        .arg(format!("import sys\npath = sys.argv[1]\n{script}"))
        .arg(path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn rows() -> Vec<TaskRow> {
    let mut running = bare_row("sub-0002", "freesurfer", TaskStatus::Running);
    running.submitted_at = Some(time(10));
    running.job_id = full_row("sub-0002", "freesurfer", 12).job_id;
    vec![
        full_row("sub-0001", "bids", 11),
        running,
        bare_row("sub-0003", "bids", TaskStatus::Pending),
    ]
}

#[test]
fn four_programs_read_our_file() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    saved(&path, rows());
    run(
        python,
        &path,
        r#"
import pandas as pd
df = pd.read_parquet(path)
six = ["subject", "session", "procedure", "status", "submitted_at", "job_id"]
assert list(df.columns[:6]) == six, df.columns
text = pd.DataFrame({"a": ["x"]}).a.dtype
for name in ["subject", "session", "procedure", "status", "job_id", "reason", "exit_code"]:
    assert df[name].dtype == text, (name, df[name].dtype)
assert str(df.submitted_at.dtype) == "datetime64[us, UTC]", df.submitted_at.dtype
assert df.submitted_at[0] == pd.Timestamp("2026-02-25T06:13:21.123456Z"), df.submitted_at[0]
assert (df.submitted_at >= pd.Timestamp("2026-02-25", tz="UTC")).sum() == 2
assert df.session[1] == "" and df.job_id[:2].tolist() == ["11", "12"] and pd.isna(df.job_id[2])
counts = df.groupby(["procedure", "status"]).size()
assert counts["bids", "failed"] == 1 and counts["freesurfer", "running"] == 1 and counts.sum() == 3
assert df.attempt[0] == 2 and df.replaces_outputs[0] == True and df.req_mem_mb[0] == 4096
df.to_csv(sys.stderr)
"#,
    );
    run(
        python,
        &path,
        r#"
import pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table(path)
utc = pa.timestamp("us", tz="UTC")
kinds = {f.name: f.type for f in table.schema}
for name in ["subject", "session", "procedure", "status", "job_id", "reason", "node_list"]:
    assert kinds[name] == pa.string(), (name, kinds[name])
for name in ["submitted_at", "started_at", "ended_at", "updated_at", "missing_since"]:
    assert kinds[name] == utc, (name, kinds[name])
assert kinds["attempt"] == pa.int32() and kinds["max_rss_mb"] == pa.int64()
assert pq.read_metadata(path).metadata[b"snbb.format_version"] == b"1"
assert pq.read_metadata(path).created_by.startswith("snbb-scheduler version ")
"#,
    );
    run(
        python,
        &path,
        r#"
import polars as pl
df = pl.read_parquet(path)
assert df.schema["subject"] == pl.String and df.schema["submitted_at"] == pl.Datetime("us", "UTC"), df.schema
counts = df.group_by("procedure", "status").len().sort("procedure", "status")
assert counts.rows() == [("bids", "failed", 1), ("bids", "pending", 1), ("freesurfer", "running", 1)], counts
assert pl.scan_parquet(path).filter(pl.col("job_id").is_null()).collect().height == 1
"#,
    );
    run(
        python,
        &path,
        r#"
import duckdb
rows = duckdb.execute("select procedure, status, count(*) from read_parquet(?) group by all order by all", [path]).fetchall()
assert rows == [("bids", "failed", 1), ("bids", "pending", 1), ("freesurfer", "running", 1)], rows
kinds = dict(r[:2] for r in duckdb.execute("describe select * from read_parquet(?)", [path]).fetchall())
assert kinds["submitted_at"] == "TIMESTAMP WITH TIME ZONE" and kinds["status"] == "VARCHAR", kinds
"#,
    );
}

#[test]
fn an_emptied_file_and_the_attempts_file_are_read_by_pandas() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let mut state = saved(&path, vec![full_row("sub-0001", "bids", 11)]);
    state.clear(&TaskKey::new("sub-0001", "ses-01", "bids"));
    locked(&path).save(&mut state).unwrap();
    run(
        python,
        &path,
        r#"
import pandas as pd
now, before = pd.read_parquet(path), pd.read_parquet(path.replace("state.p", "state.attempts.p"))
assert len(now) == 0 and str(now.submitted_at.dtype) == "datetime64[us, UTC]", now.dtypes
assert before.job_id.tolist() == ["11"] and list(now.columns) == list(before.columns)
"#,
    );
}

/// A script adds a column and a row, as the Python program adds rows; nothing of ours is lost.
#[test]
fn a_file_that_another_program_rewrote_is_continued() {
    let Some(python) = python() else { return };
    let writers = [
        "import pandas as pd\n\
         df = pd.read_parquet(path)\n\
         df['note'] = ['a', None, 'c']\n\
         df.to_parquet(path)",
        "import pyarrow as pa, pyarrow.parquet as pq\n\
         table = pq.read_table(path)\n\
         pq.write_table(table.append_column('note', pa.array(['a', None, 'c'])), path)",
        "import polars as pl\n\
         df = pl.read_parquet(path).with_columns(note=pl.Series(['a', None, 'c']))\n\
         df.write_parquet(path)",
        "import duckdb\n\
         duckdb.sql(f\"create table t as select *, case when job_id = '12' then null else 'a' end as note from '{path}'\")\n\
         duckdb.sql(f\"copy t to '{path}' (format parquet)\")",
    ];
    for writer in writers {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state.parquet");
        saved(&path, rows());
        run(python, &path, writer);
        let state = Store::at(&path).unwrap().read().unwrap();
        assert_eq!(state.meta.format_version, 0, "{writer}");
        let found: Vec<TaskRow> = state
            .rows()
            .iter()
            .map(|row| TaskRow {
                other_columns: None,
                ..row.clone()
            })
            .collect();
        assert_eq!(found, rows(), "{writer}");
        assert_eq!(
            state
                .other_columns
                .as_ref()
                .unwrap()
                .schema()
                .field(0)
                .name(),
            "note",
            "{writer}"
        );
    }
}

/// A script that hands the metadata on: the same rows are still ours, others do not fit the hash.
#[test]
fn rows_changed_under_our_metadata_are_damage_that_names_the_program() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    saved(&path, rows());
    let store = Store::at(&path).unwrap();
    let rewrite = |change: &str| {
        let script = format!(
            r#"
import pyarrow.parquet as pq
keys = {{k: v for k, v in pq.read_metadata(path).metadata.items() if k.startswith(b"snbb.")}}
table = pq.read_table(path).replace_schema_metadata(keys)
pq.write_table(table{change}, path, compression="gzip", use_dictionary=False)
"#
        );
        run(python, &path, &script);
    };
    rewrite("");
    let state = store.read().unwrap();
    assert_eq!((state.meta.generation, state.rows()), (1, &rows()[..]));
    rewrite(".slice(0, 2)");
    let error = store.read().unwrap_err();
    assert!(matches!(error, StateError::Damaged { .. }), "{error}");
    // The program that pyarrow writes into the file.
    assert!(error.to_string().contains("parquet-cpp"), "{error}");
}

#[test]
fn states_that_pandas_writes_are_read_and_continued() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    let variants = [
        "",
        "df['submitted_at'] = df.submitted_at.dt.tz_localize(None)",
        "df['submitted_at'] = df.submitted_at.dt.tz_convert('Europe/Berlin')",
        "df['submitted_at'] = df.submitted_at.astype('datetime64[ns, UTC]')",
        "df['submitted_at'] = df.submitted_at.astype('datetime64[ms, UTC]')",
        "df['job_id'] = df.job_id.astype(float)",
        "df['job_id'] = df.job_id.astype(float).astype('Int64')",
        "df['job_id'] = df.job_id.astype(float).astype(str)",
        "df['session'] = df.session.replace('', None)",
        "df['reason'] = None",
        "df['attempt'] = [1.0, 2.0, None]",
        "df = df.astype({'status': 'category', 'procedure': 'category', 'session': 'category'})",
        "df = df.astype({'subject': 'string[pyarrow]'})",
        "df = df.sort_values('job_id').iloc[[0, 1, 2]]; index = True",
        "df = pd.concat([df.assign(status='failed', submitted_at=df.submitted_at - pd.Timedelta('1D')), df])",
        "df = pd.concat([df, df[:1].assign(status='complete', submitted_at=df.submitted_at + pd.Timedelta('1D'))])",
    ];
    for variant in variants {
        let script = format!(
            r#"
import pandas as pd
at = pd.to_datetime(["2026-03-01T10:00:00.123Z"] * 3)
df = pd.DataFrame({{"subject": ["sub-0001", "sub-0002", "sub-0003"], "session": ["ses-01", "", "ses-01"],
    "procedure": ["bids", "freesurfer", "bids"], "status": ["running", "complete", "failed"],
    "submitted_at": at, "job_id": ["11", "12", None]}})
index = None
{variant}
df.to_parquet(path, index=index)
"#
        );
        run(python, &path, &script);
        let state = Store::at(&path).unwrap().read().unwrap();
        let shown: Vec<String> = state
            .rows()
            .iter()
            .map(|row| {
                let id = row.job_id.as_ref().map_or("-", |id| id.as_str());
                let at = row.submitted_at.unwrap().format("%m-%d %H:%M:%S%.3f");
                format!("{} | {} {id} {at}", row.key, row.status)
            })
            .collect();
        let expected = [
            "bids sub-0001 ses-01 | running 11 03-01 10:00:00.123",
            "freesurfer sub-0002 | complete 12 03-01 10:00:00.123",
            "bids sub-0003 ses-01 | failed - 03-01 10:00:00.123",
        ];
        assert_eq!(shown, expected, "{variant}");
        assert!(
            state.other_columns.is_none() && state.warnings.is_empty(),
            "{variant}"
        );

        let store = locked(&path);
        let mut state = store.read().unwrap();
        state.mark_changed();
        store.save(&mut state).unwrap();
        run(
            python,
            &path,
            "import pandas as pd\nassert len(pd.read_parquet(path)) == 3",
        );
        assert_eq!(store.read().unwrap().rows(), state.rows());
        std::fs::remove_file(&path).unwrap();
    }
}

/// The last state of `retry` under pandas 2: text columns of type null.
#[test]
fn a_codec_that_is_not_built_in_is_no_damage() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.parquet");
    saved(&path, rows());
    for codec in ["snappy", "gzip", "lz4", "zstd", "none"] {
        let write = format!(
            "import pandas\npandas.read_parquet(path).to_parquet(path, compression=None if '{codec}' == 'none' else '{codec}')"
        );
        run(python, &path, &write);
        assert_eq!(
            Store::at(&path).unwrap().read().unwrap().rows().len(),
            3,
            "{codec}"
        );
    }
    run(
        python,
        &path,
        "import pandas\npandas.read_parquet(path).to_parquet(path, compression='brotli')",
    );
    let error = Store::at(&path).unwrap().read().unwrap_err();
    assert!(matches!(error, StateError::NotUnderstood { .. }), "{error}");
    let told = error
        .to_string()
        .replace(dir.path().to_str().unwrap(), "[dir]");
    insta::assert_snapshot!("unknown_compression", told);
}

#[test]
fn a_file_that_pandas_emptied_is_read() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.parquet");
    run(
        python,
        &path,
        "import pyarrow as pa, pyarrow.parquet as pq\n\
         names = ['subject', 'session', 'procedure', 'status', 'submitted_at', 'job_id']\n\
         pq.write_table(pa.table({name: pa.nulls(0) for name in names}), path)",
    );
    assert!(Store::at(&path).unwrap().read().unwrap().is_empty());
}

/// The examples of `docs/state-file.md` run as they stand there.
#[test]
fn the_examples_of_the_documentation_run() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    saved(&directory.path().join(".scheduler_state.parquet"), rows());
    let text = std::fs::read_to_string("docs/state-file.md").unwrap();
    let examples: Vec<&str> = text
        .split("```python\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(examples.len() >= 4, "{}", examples.len());
    for example in examples {
        let path = directory.path().join(".scheduler_state.parquet");
        run(
            python,
            &path,
            &example.replace("/data/snbb", directory.path().to_str().unwrap()),
        );
    }
    let readme = std::fs::read_to_string("README.md").unwrap();
    for block in crate::book::blocks::blocks(&readme) {
        if block.language == "python" {
            let path = directory.path().join(".scheduler_state.parquet");
            let script = block
                .text
                .replace(".scheduler_state.parquet", path.to_str().unwrap());
            run(python, &path, &script);
        }
    }
}
