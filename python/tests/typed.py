"""Checked by mypy and never run: callers must get the types they expect."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import snbb_scheduler as snbb

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def pandas_frames() -> list[pd.DataFrame]:
    return [snbb.read_state(), snbb.read_attempts("config.yaml", engine="pandas"), snbb.read_audit(Path("log.jsonl"))]


def polars_frames() -> list[pl.DataFrame]:
    return [snbb.read_state(engine="polars"), snbb.read_audit(engine="polars"), snbb.read_attempts(engine="polars")]


def all_attempts() -> tuple[pd.DataFrame, pl.DataFrame]:
    return snbb.read_all_attempts(), snbb.read_all_attempts(engine="polars")


def called() -> subprocess.CompletedProcess[str]:
    return snbb.run(["status"], config="config.yaml", check=True, timeout=10.0, env={"PATH": "/bin"})


def where() -> Path:
    return snbb.path("audit", config=Path("config.yaml"))
