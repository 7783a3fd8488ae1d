"""Test the package on files that the program itself writes, with each installed library.

The program must be in the installed package or on PATH. SNBB_TEST_ENGINES (`pandas polars`) lists the
libraries that must be installed; without it, missing libraries are skipped.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import snbb_scheduler as snbb

CONFIG = """\
dicom_root: dicom
bids_root: bids
derivatives_root: derivatives
state_file: state.parquet
log_file: log/audit.jsonl
executor: local
local_jobs: 4
output_grace: 0s
procedures:
  - {name: convert, output_dir: "", script: convert.sh, completion_marker: done}
  - {name: check, output_dir: check, script: check.sh, depends_on: [convert], completion_marker: done}
"""
CONVERT = '#!/bin/bash\n[ "$1" != sub-02 ] || exit 3\nmkdir -p "$SNBB_OUTPUT_DIR" && touch "$SNBB_OUTPUT_DIR/done"\n'

STUDY: Path


def config() -> Path:
    return STUDY / "config.yaml"


def setUpModule() -> None:
    """Make a study in which one task is complete and one has failed twice."""
    global STUDY
    STUDY = Path(tempfile.mkdtemp(prefix="snbb-helper-"))
    unittest.addModuleCleanup(shutil.rmtree, STUDY)
    config().write_text(CONFIG)
    for name in ["convert.sh", "check.sh"]:
        (STUDY / name).write_text(CONVERT)
        (STUDY / name).chmod(0o755)
    for directory in ["bids", "derivatives", "log", "dicom/sub-01/ses-01", "dicom/sub-02/ses-01"]:
        (STUDY / directory).mkdir(parents=True)
    for subject in ["sub-01", "sub-02"]:
        (STUDY / "dicom" / subject / "ses-01" / "1.dcm").write_text("x")
    for args in [["run"], ["wait", "--interval", "1s"], ["retry"], ["run"], ["wait", "--interval", "1s"]]:
        done = snbb.run(args, config=config(), timeout=120)
        assert done.returncode in (0, 1), (args, done)
    shutil.copy(STUDY / "state.parquet", STUDY / "kept.parquet")


class Program(unittest.TestCase):
    def test_run_returns_the_output(self) -> None:
        done = snbb.run(["status", "--format", "json"], config=config())
        self.assertEqual((done.returncode, len(json.loads(done.stdout))), (0, 3), done)

    def test_check_raises_an_error_with_the_message(self) -> None:
        args = ["explain", "sub-99"]
        self.assertNotEqual(snbb.run(args, config=config()).returncode, 0)
        with self.assertRaisesRegex(snbb.SchedulerError, "explain sub-99: exit code .*\n.*sub-99") as caught:
            snbb.run(args, config=config(), check=True)
        self.assertNotEqual(caught.exception.returncode, 0)

    def test_args_must_be_a_list(self) -> None:
        with self.assertRaisesRegex(TypeError, "must be a list"):
            snbb.run("status")

    def test_the_configuration_may_come_from_the_environment(self) -> None:
        with mock.patch.dict(os.environ, SNBB_CONFIG=str(config())):
            self.assertEqual(snbb.path("audit"), STUDY / "log/audit.jsonl")
            self.assertEqual(snbb.path(), STUDY / "state.parquet")

    def test_a_missing_program_is_an_error_with_a_hint(self) -> None:
        with mock.patch("shutil.which", return_value=None), self.assertRaisesRegex(FileNotFoundError, "pip install"):
            snbb.program()

    def test_the_module_is_the_program(self) -> None:
        words = [sys.executable, "-m", "snbb_scheduler", "--version"]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True, encoding="utf-8")
        self.assertTrue(done.stdout.startswith("snbb-scheduler "), done.stdout)

    def test_errors_name_value_and_remedy(self) -> None:
        with self.assertRaisesRegex(ValueError, "'pandas' or 'polars', not 'dask'"):
            snbb.read_state(config(), engine="dask")  # type: ignore[call-overload]
        with mock.patch("importlib.import_module", side_effect=ImportError("No module named 'pandas'")):
            with self.assertRaisesRegex(ImportError, r"pip install 'snbb-scheduler\[pandas\]'"):
                snbb.read_state(config())


class Frames:
    """Tests for either library; a subclass sets the library and converts its frames to lists."""

    engine = ""

    def read_state(self, source):
        return snbb.read_state(source, engine=self.engine)

    def test_a_row_per_task(self) -> None:
        for source in [config(), str(config()), STUDY / "state.parquet"]:
            state = self.read_state(source)
            rows = sorted(self.rows(state, ["procedure", "subject", "session", "status", "reason", "attempt"]))
            self.assertEqual(
                rows,
                [
                    ("check", "sub-01", "ses-01", "complete", "verified", 1),
                    ("convert", "sub-01", "ses-01", "complete", "verified", 1),
                    ("convert", "sub-02", "ses-01", "failed", "exit_code", 2),
                ],
            )

    def test_earlier_attempts(self) -> None:
        for source in [config(), STUDY / "state.parquet", STUDY / "state.attempts.parquet"]:
            before = snbb.read_attempts(source, engine=self.engine)
            self.assertEqual(self.rows(before, ["subject", "status", "attempt"]), [("sub-02", "failed", 1)])
        none = snbb.read_attempts(STUDY / "kept.parquet", engine=self.engine)
        self.assertEqual((len(none), list(none.columns)), (0, list(before.columns)))

    def test_all_attempts_are_the_earlier_and_the_newest(self) -> None:
        for source in [config(), STUDY / "state.parquet"]:
            state = snbb.read_state(source, engine=self.engine)
            both = snbb.read_all_attempts(source, engine=self.engine)
            self.assertEqual(list(both.columns), [*state.columns, "is_newest"])
            self.assertEqual(len(both), len(state) + 1)
            self.assertEqual(self.rows(both, ["subject", "status", "is_newest"])[0], ("sub-02", "failed", False))
            self.assertEqual(sum(self.list(both, "is_newest")), len(state))
            self.check_time(both, "submitted_at")
        kept = snbb.read_all_attempts(STUDY / "kept.parquet", engine=self.engine)
        self.assertEqual(len(kept), len(snbb.read_state(STUDY / "kept.parquet", engine=self.engine)))

    def test_a_row_per_event_with_archives(self) -> None:
        log = STUDY / "log/audit.jsonl"
        for source in [config(), log]:
            events = snbb.read_audit(source, engine=self.engine)
            kinds = self.list(events, "event")
            self.assertEqual(kinds.count("submitted"), 4, kinds)
            self.assertEqual(kinds.count("retry_cleared"), 1, kinds)
            self.assertEqual(list(events.columns)[:4], ["timestamp", "event", "subject", "session"])
            self.check_time(events, "timestamp")
            self.check_time(events, "submitted_at")
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / "audit.jsonl"
            lines = log.read_bytes().splitlines(keepends=True)
            with gzip.open(Path(directory) / "audit.2020-01.jsonl.gz", "wb") as archive:
                archive.writelines(lines[:3])
            # The third line is in both files, as after a crash between writing archive and log.
            copy.write_bytes(b"".join(lines[2:]) + b'{"timestamp": "2026-')
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                again = snbb.read_audit(copy, engine=self.engine)
            self.assertIn("is not an event", str(caught[0].message))
            self.assertEqual(self.list(again, "event"), kinds)

    def test_events_of_other_programs(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            log = Path(directory) / "audit.jsonl"
            events = [
                {"timestamp": "2026-03-01T04:05:06+00:00", "event": "submitted", "job_id": 7, "argv": ["a", "b c"]},
                {"timestamp": "2026-03-01T04:05:06.000007", "event": "error", "rows": 3, "odd": True},
                {"timestamp": "2026-03-01T06:05:06.5+02:00".replace(".5", ".500000"), "odd": "x", "share": 0.5},
            ]
            log.write_text("".join(json.dumps(event) + "\n" for event in events))
            frame = snbb.read_audit(log, engine=self.engine)
            self.assertEqual(self.list(frame, "argv"), ['["a", "b c"]', None, None])
            self.assertEqual(self.list(frame, "odd"), [None, "true", "x"])
            self.assertEqual(self.list(frame, "rows"), [None, 3, None])
            self.assertEqual(self.list(frame, "detail"), [None, None, None])
            stamps = [time.isoformat() for time in self.list(frame, "timestamp")]
            self.assertEqual(
                stamps,
                ["2026-03-01T04:05:06+00:00", "2026-03-01T04:05:06.000007+00:00", "2026-03-01T04:05:06.500000+00:00"],
            )

    def test_missing_files(self) -> None:
        with self.assertRaisesRegex(FileNotFoundError, "no .*nothing.parquet: is the path right"):
            self.read_state(STUDY / "nothing.parquet")
        with self.assertRaisesRegex(snbb.SchedulerError, "nothing.yaml"):
            self.read_state(STUDY / "nothing.yaml")
        with self.assertRaisesRegex(FileNotFoundError, "give the path of the configuration"):
            snbb.read_audit(STUDY / "state.parquet", engine=self.engine)
        new = STUDY / "new.yaml"
        new.write_text(CONFIG.replace("state.parquet", "new.parquet").replace("audit.jsonl", "new.jsonl"))
        for read in [snbb.read_state, snbb.read_attempts]:
            with self.assertRaisesRegex(FileNotFoundError, "no .*new.parquet: no run has written it yet"):
                read(new, engine=self.engine)
        with self.assertRaisesRegex(FileNotFoundError, "no .*new.jsonl: nothing has been submitted yet"):
            snbb.read_audit(new, engine=self.engine)


@unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
class Pandas(Frames, unittest.TestCase):
    engine = "pandas"

    def rows(self, frame, columns):
        return list(frame[columns].astype(object).itertuples(index=False, name=None))

    def list(self, frame, column):
        import pandas as pd

        return [None if pd.isna(value) else value for value in frame[column].astype(object)]

    def check_time(self, frame, column):
        self.assertEqual(str(frame[column].dt.tz), "UTC")

    def test_types(self) -> None:
        import pandas as pd

        state = snbb.read_state(config())
        text = pd.Series(["x"]).dtype
        self.assertEqual(list(state.status.cat.categories), ["pending", "running", "complete", "failed"])
        for name in ["procedure", "reason", "slurm_state", "cluster"]:
            self.assertEqual(str(state[name].dtype), "category", name)
        for name in ["subject", "session", "job_id", "exit_code"]:
            self.assertEqual(state[name].dtype, text, name)
        for name in ["submitted_at", "started_at", "ended_at", "updated_at", "missing_since"]:
            self.check_time(state, name)
        self.assertEqual((str(state.attempt.dtype), str(state.replaces_outputs.dtype)), ("Int64", "boolean"))
        counts = state.groupby(["procedure", "status"], observed=True).size()
        self.assertEqual(counts["convert", "failed"], 1)
        self.assertTrue(((pd.Timestamp.now(tz="UTC") - state.submitted_at) < pd.Timedelta(hours=1)).all())

    def test_a_file_that_pandas_wrote(self) -> None:
        import pandas as pd

        path = STUDY / "foreign.parquet"
        frame = pd.DataFrame(
            {
                "subject": ["sub-01", "sub-02"],
                "session": ["ses-01", None],
                "procedure": ["bids", "bids"],
                "status": ["complete", "odd"],
                "submitted_at": pd.to_datetime(["2026-03-01 10:00", None]),
                "job_id": ["1", None],
                "attempt": [1.0, None],
            },
            index=[5, 3],
        )
        frame.to_parquet(path, index=True)
        state = snbb.read_state(path)
        self.assertEqual(list(state.columns), list(frame.columns))
        self.assertEqual(state.status.tolist(), ["complete", "odd"])
        self.assertEqual(state.submitted_at[0], pd.Timestamp("2026-03-01T10:00Z"))
        self.assertEqual((list(state.index), state.attempt[0]), ([0, 1], 1))


@unittest.skipUnless(importlib.util.find_spec("polars"), "polars is not installed")
class Polars(Frames, unittest.TestCase):
    engine = "polars"

    def rows(self, frame, columns):
        return frame.select(columns).rows()

    def list(self, frame, column):
        return frame[column].to_list()

    def check_time(self, frame, column):
        self.assertEqual(frame.schema[column].time_zone, "UTC")

    def test_types(self) -> None:
        import polars as pl

        state = snbb.read_state(config(), engine="polars")
        self.assertEqual(state.schema["status"], pl.Enum(["pending", "running", "complete", "failed"]))
        for name in ["procedure", "reason", "slurm_state", "cluster"]:
            self.assertEqual(state.schema[name], pl.Categorical, name)
        self.assertEqual(state.schema["submitted_at"], pl.Datetime("us", "UTC"))
        self.assertEqual((state.schema["attempt"], state.schema["subject"]), (pl.Int64, pl.String))
        self.assertEqual(state.filter(pl.col("status") == "failed").height, 1)

    def test_a_file_that_polars_wrote(self) -> None:
        from datetime import datetime

        import polars as pl

        path = STUDY / "foreign-polars.parquet"
        frame = pl.DataFrame(
            {"subject": ["sub-01"], "procedure": ["bids"], "status": ["odd"], "submitted_at": [datetime(2026, 3, 1)]}
        )
        frame.write_parquet(path)
        state = snbb.read_state(path, engine="polars")
        self.assertEqual(state["status"].to_list(), ["odd"])
        self.assertEqual(state["submitted_at"][0].isoformat(), "2026-03-01T00:00:00+00:00")


class Libraries(unittest.TestCase):
    def test_required_libraries_are_installed(self) -> None:
        for name in os.environ.get("SNBB_TEST_ENGINES", "").split():
            self.assertIsNotNone(importlib.util.find_spec(name), name)


if __name__ == "__main__":
    unittest.main()
