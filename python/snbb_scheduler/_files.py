"""Find the files of a study, and read the audit log, without data frames."""

from __future__ import annotations

import gzip
import json
import os
import re
import warnings
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Union

from ._program import path as ask

if TYPE_CHECKING:
    Source = Union[None, str, "os.PathLike[str]"]

ATTEMPTS = ".attempts.parquet"
DEFAULT_LOG = "scheduler_audit.jsonl"
MAGIC = b"PAR1"


def state_file(source: Source) -> Path:
    """Return the path of the state file. Raise FileNotFoundError if it does not exist."""
    given = _given(source, MAGIC, ".parquet")
    if given is None:
        return _there(ask("state", config=source), "no run has written it yet")
    return _there(given, "is the path right?")


def attempts_file(source: Source) -> Optional[Path]:
    """Return the path of the attempts file, or None if there are no earlier attempts.

    Raise FileNotFoundError if the state file does not exist either.
    """
    given = _given(source, MAGIC, ".parquet")
    if given is None:
        found = ask("attempts", config=source)
    elif given.name.endswith(ATTEMPTS):
        return _there(given, "is the path right?")
    else:
        # If the state file is a link, its other files are beside the target.
        real = given.resolve()
        found = real.with_name(real.stem + ATTEMPTS)
    if found.exists():
        return found
    state_file(source)
    return None


def audit_log(source: Source) -> Path:
    """Return the path of the audit log. The file may be missing if all events are in archives."""
    given = _given(source, b"{", ".jsonl", ".gz")
    if given is not None:
        return given
    state = _given(source, MAGIC, ".parquet")
    if state is None:
        return ask("audit", config=source)
    beside = state.resolve().with_name(DEFAULT_LOG)
    return _there(beside, "give the path of the configuration or of the audit log (log_file) instead")


def _given(source: Source, magic: bytes, *endings: str) -> Optional[Path]:
    """Return the source if it is a file of this kind, or None for a configuration or no source."""
    if source is None:
        return None
    given = Path(os.path.expanduser(os.fspath(source)))
    if given.name.endswith(endings):
        return given
    try:
        with given.open("rb") as file:
            return given if file.read(len(magic)) == magic else None
    except OSError:
        # The program reports this with a hint.
        return None


def _there(file: Path, hint: str) -> Path:
    if not file.exists():
        raise FileNotFoundError(f"there is no {file}: {hint}")
    return file


def events(log: Path) -> List[Dict[str, Any]]:
    """Read the events of a log and its archives, oldest first.

    Skip unreadable lines with a warning.
    """
    if log.suffix == ".gz":
        return _parse(log, _unpack(log), set())
    # Events move from the log to archives, so this order misses none.
    lines = log.read_bytes().split(b"\n") if log.exists() else []
    archives = archives_of(log)
    if not lines and not archives:
        raise FileNotFoundError(f"there is no {log}: nothing has been submitted yet, or log_file has changed")
    found: List[Dict[str, Any]] = []
    archived = set()
    for archive in archives:
        old = _unpack(archive)
        archived.update(old)
        found.extend(_parse(archive, old, set()))
    return found + _parse(log, lines, archived)


def archives_of(log: Path) -> List[Path]:
    """List the archives that ``snbb-scheduler clean`` has made of a log, oldest month first."""
    log = log.resolve()
    name = re.compile(re.escape(log.stem) + r"\.\d{4}-\d\d" + re.escape(log.suffix) + r"\.gz")
    if not log.parent.is_dir():
        return []
    return sorted(file for file in log.parent.iterdir() if name.fullmatch(file.name))


def _unpack(file: Path) -> List[bytes]:
    try:
        with gzip.open(file) as stream:
            return stream.read().split(b"\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"cannot read {file}: {error}") from error


def _parse(file: Path, lines: List[bytes], known: "set[bytes]") -> List[Dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line in known:
            continue
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict):
            found.append(event)
        else:
            warnings.warn(f"{file}: line {number} is not an event; skipped", stacklevel=4)
    return found
