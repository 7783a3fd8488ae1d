"""Run both programs from the same files, and read back what each did."""

import collections
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pandas
from cases import Task
from click.testing import CliRunner

from snbb_scheduler import checks, cli, config, manifest, rules, sessions

HERE = pathlib.Path(__file__).resolve().parent.parent.parent
COLUMNS = ["subject", "session", "procedure", "status", "submitted_at", "job_id"]
EVENTS = ["submitted", "error", "status_change", "retry_cleared"]
LIVING = {"PENDING", "RUNNING"}

Submission = collections.namedtuple("Submission", "job words")
# The result of an invocation: exit code, messages, {task: row}, all rows, {task: submission}, events, {task: cell of session-status}.
Outcome = collections.namedtuple("Outcome", "code said rows table submitted events cells")
# Options that only our program passes: `sbatch-options`.
OURS_ONLY = ("--parsable", "--comment=", "--export=", "--no-requeue")


def fake_slurm(site):
    """Return the fake Slurm of the tests."""
    source = (HERE / "tests/it/fake_slurm.rs").read_text(encoding="utf-8")
    text = re.search(r'const PROGRAM: &str = r#"(.*?)"#;', source, re.DOTALL).group(1)
    for folder in ["bin", "ids", "jobs", "state"]:
        (site / "slurm" / folder).mkdir(parents=True)
    for name in ["sbatch", "squeue", "sacct", "scancel", "scontrol", "sacctmgr"]:
        program = site / "slurm/bin" / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)


class Study:
    """A case on disk."""

    def __init__(self, case, root, ours, without=frozenset()):
        self.case, self.root, self.ours = case, root, ours
        if root.exists():
            shutil.rmtree(root)
        case.write(root, without)
        self.site = root / "site"
        fake_slurm(self.site)

    def both(self, *words):
        """Run both programs with the same arguments. The files stay unchanged until `keep`."""
        before = self.root / "before"
        self.site.rename(before)
        outcomes = []
        for whose, call in [("python", self.call_python), ("ours", self.call_ours)]:
            shutil.copytree(before, self.site)
            outcomes.append(self.outcome(whose, *call(*words)))
            self.site.rename(self.root / f"site-{whose}")
        before.rename(self.site)
        return outcomes

    def keep(self, whose):
        """Continue with the files of one of the programs."""
        shutil.rmtree(self.site)
        (self.root / f"site-{whose}").rename(self.site)
        for other in self.root.glob("site-*"):
            shutil.rmtree(other)

    # --- runs -------------------------------------------------------------------------------------------

    def environment(self):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("SNBB_", "SLURM_", "PYTHON"))}
        env["PATH"] = f"{self.site}/slurm/bin:{env['PATH']}"
        return env

    def call_python(self, *words):
        kept = dict(os.environ)
        os.environ.update(self.environment())
        try:
            done = CliRunner().invoke(cli.main, ["--config", str(self.root / "python.yaml"), *words])
        finally:
            os.environ.clear()
            os.environ.update(kept)
        return done.exit_code, f"{done.output}{done.exception or ''}", done.stdout

    def call_ours(self, *words):
        command = [self.ours, "--config", self.root / "ours.yaml", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment(), check=False)
        return done.returncode, done.stdout + done.stderr, done.stdout

    # --- due tasks ----------------------------------------------------------------------------------------

    def python_config(self):
        return config.SchedulerConfig.from_yaml(self.root / "python.yaml")

    def due(self):
        """Return the manifests, in order (None for a program that failed), and the messages of both."""
        settings = self.python_config()
        table = manifest.build_manifest(sessions.discover_sessions(settings), settings)
        python = [Task(row.procedure, row.subject, row.session) for row in table.itertuples()]
        code, said, out = self.call_ours("manifest", "--format", "json")
        ours = [Task(task["procedure"], task["subject"], task["session"]) for task in json.loads(out)] if code in (0, 7) else None
        return python, ours, said

    def complete(self):
        """Return the complete tasks of all sessions according to the Python program."""
        settings = self.python_config()
        found = set()
        for _, row in sessions.discover_sessions(settings).iterrows():
            for step in settings.procedures:
                more = rules._completion_kwargs(step, row, settings)
                if checks.is_complete(step, row[f"{step.name}_path"], **more):
                    found.add(Task(step.name, row["subject"], "" if step.scope == "subject" else row["session"]))
        return found

    def decisions(self):
        """Return the words of our `session-status` by task, or None if it failed."""
        code, _, out = self.call_ours("session-status", "--format", "json")
        by_subject = {step.name for step in self.case.procedures if step.scope == "subject"}
        if code not in (0, 7):
            return None
        return {Task(name, row["subject"], "" if name in by_subject else row["session"]): cell["decision"]
                for row in json.loads(out) for name, cell in row["procedures"].items()}

    def status_tables(self, *words):
        """Return the header and the sessions of `session-status`, for both programs."""
        tables = []
        for call in [self.call_python, self.call_ours]:
            _, _, out = call("session-status", "--format", "csv", *words)
            lines = [line.split(",") for line in out.splitlines() if line]
            tables.append((lines[:1], sorted(line[:2] for line in lines[1:])))
        return tables

    # --- results -----------------------------------------------------------------------------------------

    def jobs(self):
        """Return the name and state of each job in Slurm: {id: (name, state)}."""
        found = {}
        for path in (self.site / "slurm/jobs").iterdir():
            state = self.site / "slurm/state" / path.name
            found[path.name] = (path.read_text().split("\n")[0], state.read_text().split()[0])
        return found

    def job_name(self, task):
        return "_".join(part for part in task if part)

    def outcome(self, whose, code, said, _):
        table = None
        state = self.site / "state.parquet"
        if state.exists():
            table = pandas.read_parquet(state)
        submitted = {}
        names = {name: job for job, (name, _) in sorted(self.jobs().items())}
        argv = self.site / "slurm/argv"
        for line in argv.read_text().splitlines() if argv.exists() else []:
            words = shlex.split(line)
            name = next(word for word in words if word.startswith("--job-name=")).partition("=")[2]
            submitted.setdefault(name, []).append(Submission(names[name], words))
        log = self.site / "scheduler_audit.jsonl"
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        cells = self.decisions() if whose == "ours" else None
        return Outcome(code, said, self.rows(table), table, submitted, events, cells)

    @staticmethod
    def rows(table):
        """Return one row per task: one in flight, else the newest."""
        rows = {}
        for _, row in table.iterrows() if table is not None else []:
            task = Task(row["procedure"], row["subject"], row["session"])
            other = rows.get(task)
            rank = (row["status"] in ("pending", "running"), utc(row["submitted_at"]))
            if other is None or rank >= (other["status"] in ("pending", "running"), utc(other["submitted_at"])):
                rows[task] = row
        return rows


def utc(time):
    if pandas.isna(time):
        return pandas.Timestamp(0, tz="UTC")
    return time.tz_localize("UTC") if time.tzinfo is None else time.tz_convert("UTC")


def unequal(study, task, python, ours):
    """Return the unexpected differences of a task with equal status that both programs submitted, or neither."""
    found = []
    name = study.job_name(task)
    one, two = (outcome.submitted.get(name, []) for outcome in (python, ours))
    if one and two:
        short = [[word.replace(f"{study.root}/snbb_run_", "snbb_run_") for word in submission.words if not word.startswith(OURS_ONLY)]
                 for submission in (one[-1], two[-1])]
        if short[0] != short[1]:
            found.append(f"sbatch: {short[0]} and {short[1]}")
    rows = [outcome.rows.get(task) for outcome in (python, ours)]
    if rows[0] is None or rows[1] is None:
        return found + ([] if rows[0] is rows[1] else ["a row of one of them"])
    is_new = [bool(submissions) and submissions[-1].job == row["job_id"] for submissions, row in zip((one, two), rows)]
    for column in COLUMNS:
        values = [row[column] for row in rows]
        if column == "submitted_at":
            values = [utc(value) for value in values]
            if all(is_new) and abs((values[0] - values[1]).total_seconds()) < 3600:
                continue
        if column == "job_id" and all(is_new):
            continue
        if values[0] != values[1] and not (pandas.isna(values[0]) and pandas.isna(values[1])):
            found.append(f"{column}: {values[0]} and {values[1]}")
    return found


def unequal_tables(python, ours):
    """Return the differences between the two tables as a whole."""
    if python is None or ours is None or python.empty or ours.empty:
        return []
    found = [f"columns: {list(ours.columns)}"] if list(ours.columns[:6]) != list(python.columns[:6]) or list(python.columns[:6]) != COLUMNS else []
    for column in COLUMNS:
        kinds = [re.sub(r"\[.s, ", "[", str(table[column].dtype)) for table in (python, ours)]
        # In pandas, a column without values has no type.
        if kinds[0] != kinds[1] and not python[column].isna().all():
            found.append(f"type of {column}: {kinds[0]} and {kinds[1]}")
    return found


def happened(outcome, earlier):
    """Return the events of an invocation by task, of the kinds that both programs know."""
    found = collections.defaultdict(collections.Counter)
    for event in outcome.events[earlier:]:
        if event["event"] in EVENTS:
            task = Task(event["procedure"], event["subject"], event["session"])
            kind = event["event"]
            # Our program also records the new status of submissions and of cleared rows.
            new = event.get("new_status") if kind == "status_change" else None
            found[task][(kind, event.get("old_status"), new)] += 1
    return found
