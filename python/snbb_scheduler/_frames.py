"""Make data frames with the same columns in pandas and polars."""

from __future__ import annotations

import importlib
import json
import re
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Set, Tuple, overload

from . import _files

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ._files import Source

    Engine = Literal["pandas", "polars"]

STATUS = ["pending", "running", "complete", "failed"]
# Few distinct words in many rows. Subject and session are not categories: in older pandas, groupby makes a group of
# each pair of categories.
CATEGORIES = ["procedure", "reason", "slurm_state", "cluster", "partition", "account", "qos"]
WHOLE = ["attempt", "req_mem_mb", "max_rss_mb", "time_limit_s", "elapsed_s", "cpu_time_s", "alloc_cpus"]
WHOLE += ["req_cpus", "exit_status", "signal"]
FLAGS = ["replaces_outputs"]
TIMES = ["submitted_at", "started_at", "ended_at", "updated_at", "missing_since"]

EVENT_CATEGORIES = ["event", "procedure", "old_status", "new_status", "reason", "slurm_state", "cluster"]
EVENT_TIMES = ["timestamp", *TIMES]
FIRST = ["timestamp", "event", "subject", "session", "procedure", "job_id", "old_status", "new_status", "detail"]


@overload
def read_state(source: Source = None, *, engine: Literal["pandas"] = "pandas") -> pd.DataFrame: ...
@overload
def read_state(source: Source = None, *, engine: Literal["polars"]) -> pl.DataFrame: ...
def read_state(source: Source = None, *, engine: Engine = "pandas") -> Any:
    """Read the state: one row per task, its newest attempt.

    ``source`` is the state file or the configuration. Without it, the program's own default applies
    (``SNBB_CONFIG``). Status, procedure and reason are categories, times are UTC, and integers stay
    integers even if some are missing. ``docs/state-file.md`` lists the columns.

    Raise FileNotFoundError if the state does not exist yet, SchedulerError if the configuration is invalid,
    ImportError if pandas (with pyarrow) or polars is not installed.
    """
    library = _library(engine)
    return _table(library, engine, _files.state_file(source))


@overload
def read_attempts(source: Source = None, *, engine: Literal["pandas"] = "pandas") -> pd.DataFrame: ...
@overload
def read_attempts(source: Source = None, *, engine: Literal["polars"]) -> pl.DataFrame: ...
def read_attempts(source: Source = None, *, engine: Engine = "pandas") -> Any:
    """Read the earlier attempts of all tasks, without the newest ones.

    Columns, ``source`` and errors are as in ``read_state``. Without earlier attempts there are no rows.
    """
    library = _library(engine)
    found = _files.attempts_file(source)
    if found is None:
        return _table(library, engine, _files.state_file(source))[:0]
    return _table(library, engine, found)


@overload
def read_all_attempts(source: Source = None, *, engine: Literal["pandas"] = "pandas") -> pd.DataFrame: ...
@overload
def read_all_attempts(source: Source = None, *, engine: Literal["polars"]) -> pl.DataFrame: ...
def read_all_attempts(source: Source = None, *, engine: Engine = "pandas") -> Any:
    """Read all attempts of all tasks: the earlier ones, then the newest.

    The column ``is_newest`` is true for the rows of ``read_state``. ``source`` and errors are as in
    ``read_state``.
    """
    library = _library(engine)
    state = _files.state_file(source)
    # The scheduler writes the attempts file first. In this order a row may be read twice, but is never missed.
    newest = _table(library, engine, state)
    found = _files.attempts_file(source)
    both = newest[:0] if found is None else _table(library, engine, found), newest
    return _pandas_union(library, *both) if engine == "pandas" else _polars_union(library, *both)


@overload
def read_audit(source: Source = None, *, engine: Literal["pandas"] = "pandas") -> pd.DataFrame: ...
@overload
def read_audit(source: Source = None, *, engine: Literal["polars"]) -> pl.DataFrame: ...
def read_audit(source: Source = None, *, engine: Engine = "pandas") -> Any:
    """Read the audit log and its archives: one row per event, oldest first.

    ``source`` is the log (``.jsonl``), the configuration, or a state file with the log beside it. Columns
    are ``timestamp``, ``event``, the task, and every key that occurs in an event. Lists and objects, such
    as the command line in ``argv``, are JSON texts.

    Errors are as in ``read_state``. A line that is not an event is skipped with a warning.
    """
    library = _library(engine)
    events = _files.events(_files.audit_log(source))
    found = {key: None for event in events for key in event}
    names = FIRST + [key for key in found if key not in FIRST]
    columns = {name: _typed(name, [event.get(name) for event in events]) for name in names}
    return _pandas_events(library, columns) if engine == "pandas" else _polars_events(library, columns)


def _library(engine: str) -> Any:
    wanted = {"pandas": ["pandas", "pyarrow"], "polars": ["polars"]}.get(engine)
    if wanted is None:
        raise ValueError(f"engine must be 'pandas' or 'polars', not {engine!r}")
    try:
        return [importlib.import_module(name) for name in wanted][0]
    except ImportError as error:
        hint = f"pip install 'snbb-scheduler[{engine}]'"
        raise ImportError(f"{error}: install {' and '.join(wanted)}: {hint}") from error


def _table(library: Any, engine: str, file: Path) -> Any:
    return _pandas_table(library, file) if engine == "pandas" else _polars_table(library, file)


def _pandas_table(pd: Any, file: Path) -> Any:
    # Drop an index that a script has written to the file.
    return _pandas_typed(pd, pd.read_parquet(file, engine="pyarrow").reset_index(drop=True))


def _pandas_typed(pd: Any, frame: Any) -> Any:
    for name in frame.columns:
        column = frame[name]
        if name == "status":
            words = STATUS + sorted(set(column.dropna()) - set(STATUS))
            frame[name] = pd.Categorical(column, categories=words)
        elif name in CATEGORIES:
            frame[name] = column.astype("category")
        elif name in WHOLE:
            frame[name] = column.astype("Int64")
        elif name in FLAGS:
            frame[name] = column.astype("boolean")
        elif name in TIMES:
            frame[name] = pd.to_datetime(column, utc=True)
    return frame


def _pandas_union(pd: Any, earlier: Any, newest: Any) -> Any:
    parts = [part.assign(is_newest=is_newest) for part, is_newest in [(earlier, False), (newest, True)]]
    for name in ["status", *CATEGORIES]:
        for part in parts:
            if name in part:
                part[name] = part[name].astype(object)
    frame = _pandas_typed(pd, pd.concat([part for part in parts if len(part)] or parts, ignore_index=True))
    if "submission_id" in frame:
        is_twice = frame.submission_id.notna() & frame.submission_id.duplicated(keep="last")
        frame = frame[~is_twice].reset_index(drop=True)
    return frame


def _polars_table(pl: Any, file: Path) -> Any:
    frame = pl.read_parquet(file)
    return _polars_typed(pl, frame.drop([name for name in frame.columns if name.startswith("__index_level_")]))


def _polars_typed(pl: Any, frame: Any) -> Any:
    changes = []
    for name, kind in frame.schema.items():
        column = pl.col(name)
        if name == "status":
            text = frame[name].cast(pl.String)
            words = STATUS + sorted(set(text.drop_nulls()) - set(STATUS))
            changes.append(column.cast(pl.String).cast(pl.Enum(words)))
        elif name in CATEGORIES:
            changes.append(column.cast(pl.String).cast(pl.Categorical))
        elif name in WHOLE:
            changes.append(column.cast(pl.Int64))
        elif name in TIMES and isinstance(kind, pl.Datetime):
            naive = kind.time_zone is None
            changes.append(column.dt.replace_time_zone("UTC") if naive else column.dt.convert_time_zone("UTC"))
        elif name in TIMES:
            changes.append(column.cast(pl.Datetime("us", "UTC")))
    return frame.with_columns(changes)


def _polars_union(pl: Any, earlier: Any, newest: Any) -> Any:
    parts = []
    for part, is_newest in [(earlier, False), (newest, True)]:
        names = [name for name in ["status", *CATEGORIES] if name in part.columns]
        part = part.with_columns([pl.col(name).cast(pl.String) for name in names])
        parts.append(part.with_columns(is_newest=pl.lit(is_newest)))
    frame = _polars_typed(pl, pl.concat(parts, how="diagonal_relaxed"))
    if "submission_id" in frame.columns:
        is_last = pl.col("submission_id").is_last_distinct()
        frame = frame.filter(pl.col("submission_id").is_null() | is_last)
    return frame


def _typed(name: str, values: List[Any]) -> Tuple[str, List[Any]]:
    """Return the kind of column that these values make, and the values converted to it."""
    values = [json.dumps(value) if isinstance(value, (list, dict)) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if name in EVENT_TIMES:
        return "time", [_time(name, value) for value in values]
    types: List[Tuple[str, Set[type]]] = [("whole", {int}), ("flag", {bool}), ("number", {int, float})]
    for kind, allowed in types:
        if kinds and kinds <= allowed and name not in EVENT_CATEGORIES:
            return kind, values
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return "category" if name in EVENT_CATEGORIES else "text", texts


def _time(name: str, value: Any) -> Optional[datetime]:
    if value is None:
        return None
    try:
        # Python before 3.11 does not accept Z.
        time = datetime.fromisoformat(re.sub("[Zz]$", "+00:00", str(value)))
    except ValueError:
        warnings.warn(f"{name} {value!r} is not a time; skipped", stacklevel=5)
        return None
    return time.replace(tzinfo=timezone.utc) if time.tzinfo is None else time.astimezone(timezone.utc)


def _pandas_events(pd: Any, columns: Dict[str, Tuple[str, List[Any]]]) -> Any:
    kinds = {"category": "category", "whole": "Int64", "flag": "boolean", "number": "float64"}
    kinds["text"] = pd.Series(["x"]).dtype
    made = {}
    for name, (kind, values) in columns.items():
        if kind == "time":
            made[name] = pd.to_datetime(pd.Series(values, dtype=object), utc=True)
        else:
            made[name] = pd.Series(values, dtype=kinds[kind])
    return pd.DataFrame(made)


def _polars_events(pl: Any, columns: Dict[str, Tuple[str, List[Any]]]) -> Any:
    kinds = {"text": pl.String, "category": pl.Categorical, "whole": pl.Int64, "flag": pl.Boolean}
    kinds.update(number=pl.Float64, time=pl.Datetime("us", "UTC"))
    return pl.DataFrame([pl.Series(name, values, dtype=kinds[kind]) for name, (kind, values) in columns.items()])
