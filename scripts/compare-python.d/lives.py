"""Random lives: jobs end in various ways, sessions arrive, people retry. At each step both programs start from the same files.

Then one of them continues with its own result: the Python program, ours, and the Python program again, or the other way
round. So each program takes over the other's files at every step.
"""

import collections

from cases import Case, Task
from programs import LIVING, Study, happened, unequal, unequal_tables

# States of Slurm that end a job and that the Python program knows.
ENDS = ["COMPLETED"] * 12 + ["FAILED 1:0"] * 5 + ["TIMEOUT", "CANCELLED", "OUT_OF_MEMORY 0:125", "NODE_FAIL", "GONE", "PREEMPTED", "DEADLINE"]
UNKNOWN_TO_PYTHON = {"PREEMPTED", "DEADLINE"}


class Life:
    def __init__(self, seed, number, root, ours):
        self.case = Case(f"life/{seed}", number)
        self.random = self.case.random
        plain = frozenset(self.case.kinds())
        self.waits_for_all = self.random.random() < 0.5
        self.case.ours = {"pause_after_failures": 0}
        self.resubmits = self.random.random() < 0.5
        if self.resubmits:
            self.case.ours.update(resubmit_failed=True, output_grace="0s")
        self.study = Study(self.case, root, ours, plain - {"all-sessions"} if self.waits_for_all else plain)
        length = self.random.randint(5, 9)
        first, second = sorted(self.random.sample(range(1, length), 2))
        start = self.random.choice(["python", "ours"])
        other = {"python": "ours", "ours": "python"}[start]
        self.drivers = [start] * first + [other] * (second - first) + [start] * (length - second)
        self.before = {}  # rows
        self.has_failed = set()  # tasks that ever had a failed row
        self.rows_of = collections.Counter()

    def steps(self):
        """Yield the differences of each step as {(what, task): (side, kinds or None)}, and the messages."""
        for driver in self.drivers:
            self.live()
            words = self.command()
            self.is_retry = words[0] == "retry"
            self.is_blind = self.is_retry or "--skip-monitor" in words
            self.facts = self.study.jobs()
            self.complete = self.study.complete()
            log = self.study.site / "scheduler_audit.jsonl"
            argv = self.study.site / "slurm/argv"
            earlier = len(log.read_text().splitlines()) if log.exists() else 0
            argv.unlink(missing_ok=True)
            python, ours = self.study.both(*words)
            said = f"{driver}: {' '.join(words)}\npython: {python.said[-600:]}\nours ({ours.code}): {ours.said[-900:]}"
            yield self.compare(python, ours, earlier), said
            last = python if driver == "python" else ours
            self.before = last.rows
            self.rows_of = collections.Counter()
            if last.table is not None:
                self.rows_of.update(Task(*row) for row in last.table[["procedure", "subject", "session"]].itertuples(index=False))
            self.study.keep(driver)

    # --- events -------------------------------------------------------------------------------------------

    def live(self):
        for job, (name, state) in sorted(self.study.jobs().items()):
            if state not in LIVING or self.random.random() < 0.3:
                continue
            if state == "PENDING" and self.random.random() < 0.5:
                self.set(job, "RUNNING")
                if self.random.random() < 0.15:
                    self.work(name)
                continue
            end = self.random.choice(ENDS)
            self.set(job, end)
            if self.random.random() < {"COMPLETED": 0.9, "GONE": 0.5}.get(end, 0.1):
                self.work(name)
        if self.random.random() < 0.3:
            self.case.grow(self.study.root)

    def set(self, job, state):
        (self.study.site / "slurm/state" / job).write_text(f"{state}\n")

    def work(self, name):
        """Write a task's outputs, as a job or a person would."""
        for task in self.tasks():
            if self.study.job_name(task) == name:
                for path, content in self.case.outputs(self.study.root, task).items():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(content)

    def tasks(self):
        for step in self.case.procedures:
            sessions = self.case.sessions if step.scope == "session" else [(subject, "") for subject, _ in self.case.sessions]
            yield from (Task(step.name, *session) for session in dict.fromkeys(sessions))

    def command(self):
        word = self.random.choice(["run"] * 6 + ["monitor"] * 3 + ["run --skip-monitor", "retry", "retry --one"])
        if word == "retry --one":
            return ["retry", "--procedure", self.random.choice(self.case.procedures).name]
        return word.split()

    # --- differences --------------------------------------------------------------------------------------

    def compare(self, python, ours, earlier):
        differences = {}

        def differs(what, task, side):
            differences[what, task] = (side, self.why(what, task, side))

        events = [happened(outcome, earlier) for outcome in (python, ours)]
        statuses = [{task: row["status"] for task, row in outcome.rows.items()} for outcome in (python, ours)]
        self.after = statuses
        self.has_failed.update(task for status in statuses for task, word in status.items() if word == "failed")
        for task in sorted({*self.tasks(), *statuses[0], *statuses[1]}):
            name = self.study.job_name(task)
            one, two = (len(outcome.submitted.get(name, [])) for outcome in (python, ours))
            if one != two or max(one, two) > 1:
                differs("submitted", task, "python" if one > two else "ours")
            one, two = statuses[0].get(task), statuses[1].get(task)
            if one != two:
                differs("status", task, f"{one} and {two}")
            cell = (ours.cells or {}).get(task)
            if (task in self.complete) != (cell == "complete") and cell is not None:
                differs("complete", task, f"{task in self.complete} and {cell}")
            if not any((what, task) in differences for what in ("submitted", "status")):
                for text in unequal(self.study, task, python, ours):
                    differences[text, task] = ("both", None)
                if events[0][task] != events[1][task]:
                    differs("events", task, f"{dict(events[0][task])} and {dict(events[1][task])}")
        for text in unequal_tables(python.table, ours.table):
            differences[text, None] = ("both", None)
        if ours.code not in (0, 3, 7) or python.code != 0:
            differences["exit", None] = (f"{python.code} and {ours.code}", None)
        if python.table is not None and python.table.duplicated(["subject", "session", "procedure"]).any():
            differences["rows", None] = ("python", "one-row")
        return differences

    def why(self, what, task, side):
        """Return the deliberate difference that explains this one, or None."""
        own = self.kinds(task)
        statuses = tuple(status.get(task) for status in self.after)
        if what == "status":
            allowed = {"living-jobs": (("complete",), ("pending", "running")),
                       "completed-without-outputs": (("complete",), ("running", "failed")),
                       "slurm-states": (("pending", "running", "complete"), ("failed", None)),
                       "unaccounted-jobs": (("complete",), ("pending", "running")),
                       "retry-looks": (("pending", "running"), ("running", "complete", "failed"))}
            for kind in own & allowed.keys():
                if statuses[0] in allowed[kind][0] and statuses[1] in allowed[kind][1]:
                    return kind
            # The row of a task that only one program has submitted again.
            return self.why("submitted", task, "python" if statuses[0] == "pending" else "ours") if "pending" in statuses else None
        if what == "events":
            if self.is_retry and self.rows_of[task] > 1:
                return "one-row"
            # Both submitted it again, and name the end of the previous job differently.
            return next((kind for kind in ("completed-without-outputs", "slurm-states") if kind in own), None)
        if what == "complete":
            if task in self.complete:
                return next((kind for kind in ("living-jobs", "failed-with-outputs", "unaccounted-jobs") if kind in own), None)
            return None
        if what == "submitted" and side == "python":
            for kind in ["failed-tasks", "completed-without-outputs", "living-jobs"]:
                if kind in own:
                    return kind
            above = set().union(*map(self.kinds, self.above(task)))
            for kind in ["living-jobs", "failed-with-outputs", "unaccounted-jobs"]:
                if kind in above:
                    return kind
            step = self.case.by_name()[task.procedure]
            if step.scope == "subject" and self.waits_for_all and any(self.case.by_name()[name].scope == "session" for name in step.depends_on):
                return "all-sessions"
        if what == "submitted" and side == "ours":
            return next((kind for kind in ("slurm-states", "failed-with-outputs") if kind in own), None)
        return None

    def kinds(self, task):
        """Return the differences that the state of a task can cause."""
        found = set()
        row = self.before.get(task)
        name = self.study.job_name(task)
        is_complete = task in self.complete
        states = {job: state for job, (other, state) in self.facts.items() if other == name}
        word = states.get(str(row["job_id"])) if row is not None else None
        is_in_flight = row is not None and row["status"] in ("pending", "running")
        # Without a query to Slurm, a job whose end is unknown counts as alive.
        if is_complete and (LIVING & set(states.values()) or is_in_flight and self.is_blind):
            found.add("living-jobs")
        if word == "COMPLETED" and not is_complete:
            found.add("completed-without-outputs")
        if word in UNKNOWN_TO_PYTHON:
            found.add("slurm-states")
        if word == "GONE" and is_in_flight and is_complete:
            found.add("unaccounted-jobs")
        if "failed" in [status.get(task) for status in self.after]:
            if not self.resubmits:
                found.add("failed-tasks")
        ended = word is not None and word not in LIVING | {"COMPLETED", "GONE"}
        if is_complete and (task in self.has_failed or ended):
            found.add("failed-with-outputs")
        for other in self.same_outputs(task) if is_complete else []:
            status = self.after[1].get(other)
            found.update({"pending": ["living-jobs"], "running": ["living-jobs"], "failed": ["failed-with-outputs"]}.get(status, []))
        # Our `retry` asks Slurm first, so its row has the job's current state.
        now = self.after[1].get(task)
        expected = "running" if word == "RUNNING" else "complete" if is_complete else "failed"
        if self.is_retry and is_in_flight and now == expected:
            found.add("retry-looks")
        return found

    def same_outputs(self, task):
        """Return the dependencies whose jobs write into the same directory."""
        of = {step.name: step.output_dir for step in self.case.procedures}
        return [other for other in self.above(task) if of[other.procedure] == of[task.procedure]]

    def above(self, task):
        by_name = self.case.by_name()
        sessions = [session for subject, session in self.case.sessions if subject == task.subject]
        for name in self.case.above(task.procedure):
            if by_name[name].scope == "subject":
                yield Task(name, task.subject, "")
            else:
                yield from (Task(name, task.subject, session) for session in sessions if task.session in ("", session))
