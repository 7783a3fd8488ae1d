"""Random studies: trees of files and configurations within the rules that both programs share.

Some have a feature in which the programs differ deliberately (`Plant`), which can be removed again.
"""

import collections
import json
import pathlib
import random
import re

# Patterns of completion markers, and names of files that match them.
GLOBS = {"*.html": "report.html", "*_T1w.nii.gz": "x_T1w.nii.gz", "fig/*.svg": "fig/a.svg", "**/x*.tsv": "deep/er/x1.tsv",
         "out?.txt": "out7.txt", "[ab].json": "b.json", "[!ab].json": "c.json", "*/stats.csv": "s1/stats.csv"}
LITERALS = {"done": "done", "logs/finished.txt": "logs/finished.txt"}

BIDS = {"anat/*_T1w.nii.gz": "anat/{0}_T1w.nii.gz", "dwi/*dir-AP*_dwi.nii.gz": "dwi/{0}_dir-AP_dwi.nii.gz",
        "dwi/*dir-AP*_dwi.bvec": "dwi/{0}_dir-AP_dwi.bvec", "dwi/*dir-AP*_dwi.bval": "dwi/{0}_dir-AP_dwi.bval",
        "dwi/*dir-PA*_dwi.nii.gz": "dwi/{0}_dir-PA_dwi.nii.gz",
        "fmap/*acq-func_dir-AP*epi.nii.gz": "fmap/{0}_acq-func_dir-AP_epi.nii.gz",
        "fmap/*acq-func_dir-PA*epi.nii.gz": "fmap/{0}_acq-func_dir-PA_epi.nii.gz",
        "func/*task-rest_bold.nii.gz": "func/{0}_task-rest_bold.nii.gz"}
POST = {"fmap/*acq-dwi*_epi.nii.gz": "fmap/{0}_acq-dwi_dir-PA_epi.nii.gz"}
DEFACING = {"anat/*acq-defaced*_T1w.nii.gz": "anat/{0}_acq-defaced_T1w.nii.gz"}
QSIPREP = {"*.html": "{0}.html", "dwi/*_dwi_preproc.nii.gz": "dwi/{0}_dwi_preproc.nii.gz",
           "dwi/*_dwi_preproc.bvec": "dwi/{0}_dwi_preproc.bvec", "dwi/*_dwi_preproc.bval": "dwi/{0}_dwi_preproc.bval",
           "dwi/*desc-image_qc.tsv": "dwi/{0}_desc-image_qc.tsv"}
RAW = "raw"
GOOD_MARK = "-" * 30 + "\nSUBJECT x\n"
BAD_MARKS = ["", "0\n", "1\n", "-1\nSUBJECT x\n", "\nSUBJECT x\n"]


Procedure = collections.namedtuple("Procedure", "name output_dir scope depends_on markers marker")
# A feature in which the programs differ: for which tasks (None: any), and whose manifest has more (None: either).
Plant = collections.namedtuple("Plant", "kind procedure subject session side")
Task = collections.namedtuple("Task", "procedure subject session")


class Case:
    """A study as a list of files, each of which may belong to a removable feature."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed}/{number}")
        self.number = number
        self.files = []  # (path, content, kind, whether it exists only without the kind)
        self.plants = []
        self.procedures = None
        self.is_built_in = False
        self.other_output_dir = None
        self.options = {}
        self.options_of_kind = {}
        self.table = None
        self.ours = {}  # keys only for our configuration
        self.make()
        self.has_log_dir = self.chance(0.5)

    def chance(self, share):
        return self.random.random() < share

    def add(self, path, content="x", kind=None, instead=False):
        self.files.append((path, content, kind, instead))

    def plant(self, kind, procedure=None, subject=None, session=None, side=None):
        self.plants.append(Plant(kind, procedure, subject, session, side))

    def kinds(self):
        return sorted({plant.kind for plant in self.plants})

    # --- creation ---------------------------------------------------------------------------------

    def make(self):
        subjects = self.random.sample(["0001", "0002", "0012", "A1", "b", "X9Y"], self.random.randint(1, 4))
        labels = ["202401010900", "202402020900", "20240303", "1", "B2"]
        self.sessions = [(f"sub-{subject}", f"ses-{session}") for subject in sorted(subjects)
                         for session in sorted(self.random.sample(labels, self.random.choice([1, 1, 2, 3])))]
        if self.chance(0.25):
            self.make_table()
        else:
            self.make_dicom()
        if self.chance(0.45):
            self.make_built_in()
        else:
            self.make_own()
        if self.chance(0.03):
            self.options_of_kind["missing-roots"] = {"dicom_root": "nowhere"}
            self.plant("missing-roots")

    def make_dicom(self):
        for subject, session in self.sessions:
            self.add(f"dicom/{subject}/{session}/1.dcm")
        for junk in self.random.sample(["dicom/README", "dicom/sub-file", "dicom/tmp/ses-1/x", "dicom/sub-0001/notes/x"], 2):
            self.add(junk)
        if self.chance(0.12):
            subject, session = self.random.choice([("sub-a_b", "ses-1"), ("sub-a b", "ses-1"), (self.sessions[0][0], "ses-1-2"),
                                                   (self.sessions[0][0], "ses-a.b")])
            self.add(f"dicom/{subject}/{session}/1.dcm", kind="labels")
            self.plant("labels", None, subject, session, "python")
            # Procedures per subject wait for a session that does not exist.
            self.plant("labels", None, subject, "")
        if self.chance(0.08):
            subject = self.sessions[0][0]
            self.add(f"dicom/{subject}/ses-empty", None, "sessions-without-files")
            self.plant("sessions-without-files", None, subject)

    def make_table(self):
        """Subjects and sessions as numbers, as exported from a database, or as texts that are used unchanged."""
        rows, kept = [], []
        is_text = self.chance(0.3)
        for row, (subject, session) in enumerate(self.sessions):
            number, scan = str(row // 2 + 1), str(20240101 + row)
            if is_text:
                written = {"1": "00001", "2": "2", "3": "123456"}.get(number, "X" + number)
                scan = self.random.choice([scan, scan.zfill(14)])
                label = written.zfill(4)
            else:
                written = self.random.choice([number, f"{number}.0", number.zfill(4)])
                label = number.zfill(4)
            path = self.random.choice([RAW, RAW, "", "NA"])
            rows.append((written, scan, path, None))
            kept.append((f"sub-{label}", f"ses-{scan.zfill(12)}"))
        self.sessions = kept
        if is_text:
            rows.append(("X", "B", RAW, None))
            self.sessions.append(("sub-000X", "ses-00000000000B"))
        elif self.chance(0.2):
            rows.append(("", "20240101", RAW, None))
            rows.append(rows[0][:2] + ("/another", None))
        if not is_text and self.chance(0.15):
            rows.append((self.random.choice(["2.7", "1e3"]), "20250101", RAW, "csv-ids"))
            self.plant("csv-ids")
        if self.chance(0.15):
            rows.append(("77", "20250202", "/nowhere", "sessions-without-files"))
            self.plant("sessions-without-files", None, "sub-0077")
        self.table = rows
        self.options["sessions_file"] = "sessions.csv"

    def make_built_in(self):
        six = [("bids", "", "session", [], BIDS), ("bids_post", "", "session", ["bids"], POST),
               ("defacing", "", "session", ["bids_post"], DEFACING), ("qsiprep", "qsiprep", "session", ["bids_post"], QSIPREP),
               ("freesurfer", "freesurfer", "subject", ["bids_post"], None),
               ("qsirecon", "qsirecon", "session", ["qsiprep", "freesurfer"], None)]
        self.procedures = [Procedure(*values, list(values[4]) if values[4] else None) for values in six]
        self.is_built_in = True
        for procedure in self.procedures[:4]:
            for subject, session in self.sessions:
                if procedure.name == "defacing":
                    # One of the programs counts defaced images in its FreeSurfer check.
                    if self.chance(0.25):
                        path = f"bids/{subject}/{session}/anat/{subject}_{session}_acq-defaced_T1w.nii.gz"
                        self.add(path, kind="freesurfer-check")
                        self.plant("freesurfer-check", "freesurfer", subject, "")
                        self.plant("freesurfer-check", "bids", subject, session)
                        self.plant("freesurfer-check", "defacing", subject, session)
                else:
                    self.make_output(procedure, subject, session, 0.8)
        for subject in sorted({subject for subject, _ in self.sessions}):
            self.make_freesurfer(subject)
        self.make_qsirecon()

    def make_freesurfer(self, subject):
        shape = self.random.choice(["nothing", "single", "whole", "whole", "whole", "unfinished", "bad"])
        images = [session for other, session in self.sessions if other == subject and self.has_image(subject, session)]
        root = "derivatives/freesurfer"
        done = "scripts/recon-all.done"
        if shape == "nothing":
            return
        if shape == "single" or len(images) < 2:
            self.add(f"{root}/{subject}/{done}", self.random.choice(BAD_MARKS) if shape == "bad" else GOOD_MARK)
            return
        runs = [f"{subject}_{session}" for session in images]
        marks = [f"{root}/{run}/{done}" for run in runs] + [f"{root}/{run}.long.{subject}/{done}" for run in runs]
        marks.append(f"{root}/{subject}/{done}")
        spoilt = self.random.choice(marks)
        for mark in marks:
            if mark != spoilt or shape == "whole":
                self.add(mark, GOOD_MARK)
            elif shape == "bad":
                self.add(mark, self.random.choice(BAD_MARKS))
        names = "".join(f"{run}\n" for run in runs)
        if self.chance(0.25):
            self.add(f"{root}/{subject}/base-tps", names, "freesurfer-check", instead=True)
            self.plant("freesurfer-check", "freesurfer", subject, "", "ours")
        else:
            self.add(f"{root}/{subject}/base-tps", names)

    def has_image(self, subject, session):
        start = f"bids/{subject}/{session}/anat/"
        return any(path.startswith(start) and path.endswith("_T1w.nii.gz") and kind is None for path, _, kind, _ in self.files)

    def make_qsirecon(self):
        suffixes = self.random.choice([None, ["A"], ["A", "B", "A"]])
        if suffixes:
            self.options["qsirecon_spec"] = "spec.yaml"
            self.add("spec.yaml", json.dumps({"nodes": [{"qsirecon_suffix": suffix} for suffix in suffixes] + [{"name": "x"}]}))
        elif self.chance(0.08):
            self.options_of_kind["qsirecon-check"] = {"qsirecon_spec": "no-spec.yaml"}
            self.plant("qsirecon-check")
        if self.chance(0.15):
            # The built-in six, written out.
            self.is_built_in = False
            self.other_output_dir = "qsirecon-v2"
            self.plant("qsirecon-check", "qsirecon")
        for subject, session in self.sessions:
            for suffix in ["A", "B"]:
                if self.chance(0.6):
                    root = self.random.choice(["qsirecon", "qsirecon", "qsirecon-v2"])
                    self.add(f"derivatives/{root}/derivatives/qsirecon-{suffix}/{subject}_{session}.html")

    def make_own(self):
        self.procedures = []
        for place in range(self.random.randint(2, 5)):
            scope = "subject" if self.chance(0.3) else "session"
            earlier = [other.name for other in self.procedures]
            needs = self.random.sample(earlier, min(len(earlier), self.random.choice([0, 1, 1, 2])))
            if scope == "subject":
                # `sessions: any` requires one session per dependency, the Python program one session with all dependencies.
                per_session = [other.name for other in self.procedures if other.scope == "session"]
                needs = [name for name in needs if name not in per_session] + [name for name in needs if name in per_session][:1]
            name = f"p{place}"
            kind = self.random.choice(["none", "glob", "glob", "literal", "list", "list", "empty"])
            globs = self.random.sample(sorted(GLOBS), 2)
            literal = self.random.choice(sorted(LITERALS))
            markers = {"none": None, "empty": {}, "glob": {globs[0]: GLOBS[globs[0]]}, "literal": {literal: literal},
                       "list": {globs[0]: GLOBS[globs[0]], globs[1]: GLOBS[globs[1]], literal: literal}}[kind]
            marker = {"none": None, "glob": globs[0], "literal": literal, "list": list(markers or {}),
                      "empty": self.random.choice(["", []])}[kind]
            output_dir = "" if self.chance(0.2) and kind not in ("none", "empty") else name
            procedure = Procedure(name, output_dir, scope, needs, markers, marker)
            self.procedures.append(procedure)
            keys = self.sessions if scope == "session" else sorted({(subject, "") for subject, _ in self.sessions})
            for subject, session in keys:
                self.make_output(procedure, subject, session, 0.6)
            per_session = {other.name for other in self.procedures if other.scope == "session"}
            if scope == "subject" and per_session.intersection(needs):
                self.plant("all-sessions", name, None, "", "python")

    def make_output(self, procedure, subject, session, share):
        """Write all, some or none of a task's outputs; sometimes only one of the programs accepts a marker."""
        root = f"derivatives/{procedure.output_dir}" if procedure.output_dir else "bids"
        place = "/".join(part for part in [root, subject, session] if part)
        key = (procedure.name, subject, session)
        name = f"{subject}_{session}" if session else subject
        if not procedure.markers:
            if self.chance(share):
                self.add(f"{place}/anything")
            elif self.chance(0.3):
                if procedure.markers is None:
                    self.add(place, None)
                else:
                    self.add(place, None, "empty-marker-list")
                    self.plant("empty-marker-list", *key, "ours")
            return
        files = {pattern: path.format(name) for pattern, path in procedure.markers.items()}
        if not self.chance(share):
            for path in self.random.sample(sorted(files.values()), self.random.randint(0, len(files) - 1)):
                self.add(f"{place}/{path}")
            return
        globs = sorted(pattern for pattern in files if "*" in pattern or "?" in pattern or "[" in pattern)
        special = self.random.choice(globs) if globs and self.chance(0.06) else None
        for pattern, path in files.items():
            if pattern != special:
                self.add(f"{place}/{path}")
                continue
            kind = self.random.choice(["hidden-markers", "empty-files", "broken-links"])
            folder, _, last = path.rpartition("/")
            if kind == "hidden-markers" and (not re.search(r"(^|/)\*[^*/]*$", pattern) or last.startswith(".")):
                kind = "empty-files"
            content = {"hidden-markers": "x", "empty-files": "", "broken-links": pathlib.Path("nowhere")}[kind]
            last = f".{last}" if kind == "hidden-markers" else last
            self.add("/".join(part for part in [place, folder, last] if part), content, kind)
            # The target of a dangling link is unknown: for us the task is neither complete nor due.
            side = None if kind == "broken-links" else "ours"
            # A file below bids_root may also be a marker of another procedure.
            for other in self.procedures if procedure.output_dir == "" else [procedure]:
                if other.output_dir == procedure.output_dir:
                    self.plant(kind, other.name, subject, None, None if other is not procedure else side)
            if procedure.output_dir == "":
                self.plant(kind, procedure.name, subject, session, side)
                self.plant(kind, "freesurfer", subject, "")

    # --- writing and running ------------------------------------------------------------------------

    def write(self, root, without):
        for folder in ["dicom", "bids", "derivatives", "site"]:
            (root / folder).mkdir(parents=True)
        if self.is_built_in:
            for procedure in self.procedures:
                (root / f"snbb_run_{procedure.name}.sh").write_text("#!/bin/sh\n")
        for path, content, kind, instead in self.files:
            if kind is not None and (kind in without) != instead:
                continue
            path = root / path
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, pathlib.Path):
                if not path.is_symlink() and not path.exists():
                    path.symlink_to(content)
            elif content or not path.exists():
                if path.is_symlink():
                    path.unlink()
                path.write_text(content, encoding="utf-8")
        if self.table is not None:
            (root / RAW).mkdir()
            (root / RAW / "1.dcm").write_text("x")
            lines = [[*row[:2], str(root / RAW) if row[2] == RAW else row[2]] for row in self.table if row[3] not in without]
            (root / "sessions.csv").write_text("UID,ScanID,dicom_path\n" + "".join(",".join(row) + "\n" for row in lines))
        for whose in ["python", "ours"]:
            (root / f"{whose}.yaml").write_text(json.dumps(self.config(root, whose, without), indent=1))

    def config(self, root, whose, without):
        # The programs write to one directory, which is restored for the second program.
        config = {"dicom_root": "dicom", "bids_root": "bids", "derivatives_root": "derivatives", "state_file": "site/state.parquet"}
        if self.has_log_dir:
            config["slurm_log_dir"] = "site/logs"
        config.update(self.options)
        for kind, options in self.options_of_kind.items():
            if kind not in without:
                config.update(options)
        # The Python program resolves relative paths in the working directory.
        config = {key: str(root / value) for key, value in config.items()}
        if whose == "ours":
            config.update(self.ours)
        if not self.is_built_in:
            config["procedures"] = [self.entry(procedure, whose, without) for procedure in self.procedures]
        return config

    def entry(self, procedure, whose, without):
        needs = list(procedure.depends_on)
        if whose == "ours" and "all-sessions" in without and procedure.scope == "subject" and procedure.name != "freesurfer":
            per_session = {other.name for other in self.procedures if other.scope == "session"}
            needs = [{"name": name, "sessions": "any"} if name in per_session else name for name in needs]
        entry = {"name": procedure.name, "output_dir": procedure.output_dir, "script": "/bin/true", "scope": procedure.scope,
                 "depends_on": needs, "completion_marker": procedure.marker}
        if procedure.name == "qsirecon" and self.other_output_dir and "qsirecon-check" not in without:
            entry["output_dir"] = self.other_output_dir
        return entry

    def concerns(self, task, side, kinds):
        """Return whether features of these kinds can explain a task on one side only."""
        above = self.above(task.procedure)
        for plant in self.plants:
            if plant.kind not in kinds or plant.subject not in (None, task.subject):
                continue
            if plant.procedure in (None, task.procedure) and plant.session in (None, task.session) and plant.side in (None, side):
                return True
            if plant.procedure in above:
                return True
        return False

    def above(self, name):
        """Return all direct and indirect dependencies of a procedure."""
        by_name = self.by_name()
        found, rest = set(), [name]
        while rest:
            needs = set(by_name[rest.pop()].depends_on) - found
            found |= needs
            rest += needs
        return found

    def by_name(self):
        return {procedure.name: procedure for procedure in self.procedures}

    # --- later changes ------------------------------------------------------------------------------

    def grow(self, root):
        """Add a newly scanned session."""
        subject = self.random.choice([subject for subject, _ in self.sessions] + ["sub-0099"])
        session = f"ses-2025{self.random.randint(10000000, 99999999)}"
        if self.table is None:
            (root / "dicom" / subject / session).mkdir(parents=True)
            (root / "dicom" / subject / session / "1.dcm").write_text("x")
        else:
            with open(root / "sessions.csv", "a", encoding="utf-8") as file:
                file.write(f"{subject[4:]},{session[4:]},{root / RAW}\n")
        self.sessions.append((subject, session))

    def outputs(self, root, task):
        """Return the files that make a task complete, and their contents."""
        procedure = self.by_name()[task.procedure]
        top = root / "derivatives" / procedure.output_dir if procedure.output_dir else root / "bids"
        name = "_".join(part for part in [task.subject, task.session] if part)
        if task.procedure == "qsirecon":
            return {top / "derivatives" / f"qsirecon-{suffix}" / f"{name}.html": "x" for suffix in "AB"}
        if task.procedure == "freesurfer":
            images = sorted({path.parent.parent.name for path in (root / "bids" / task.subject).glob("*/anat/*_T1w.nii.gz")})
            runs = [f"{task.subject}_{session}" for session in images] if len(images) > 1 else []
            marks = [task.subject, *runs, *(f"{run}.long.{task.subject}" for run in runs)]
            files = {top / mark / "scripts" / "recon-all.done": GOOD_MARK for mark in marks}
            files[top / task.subject / "base-tps"] = "".join(f"{run}\n" for run in runs)
            return files
        place = top / task.subject / task.session
        if task.procedure == "defacing":
            # Derived from an image, which FreeSurfer's check counts.
            return {place / "anat" / f"{name}{part}_T1w.nii.gz": "x" for part in ("", "_acq-defaced")}
        return {place / path.format(name): "x" for path in (procedure.markers or {"": "anything"}).values()}
