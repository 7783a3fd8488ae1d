"""Read the tables of snbb-scheduler as data frames, and run its commands.

    import snbb_scheduler as snbb

    state = snbb.read_state("config.yaml")          # pandas frame with one row per task
    events = snbb.read_audit("config.yaml")         # one row per event
    snbb.run(["status", "--failed"]).stdout

The package never writes a file of the scheduler. pandas and polars are imported when they are first
used: ``pip install "snbb-scheduler[pandas]"`` or ``"snbb-scheduler[polars]"``.
"""

from __future__ import annotations

from ._frames import read_all_attempts, read_attempts, read_audit, read_state
from ._program import SchedulerError, path, program, run

__all__ = ["SchedulerError", "path", "program", "read_all_attempts", "read_attempts", "read_audit", "read_state", "run"]
