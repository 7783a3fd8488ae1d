"""Run FreeSurfer for all sessions of one subject, for job scripts of the earlier Python program.

A subject with one session gets a cross-sectional run in ``<output-dir>/<subject>``. A subject with several sessions
gets a run per session, a template of all sessions, and a longitudinal run per session. Successful runs are not
repeated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

DONE = "scripts/recon-all.done"


class Images(NamedTuple):
    """The images of one session."""

    t1: Path
    t2: Optional[Path]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Return 0, the exit code of the first ``recon-all`` that failed, or 1."""
    options = _parser().parse_args(argv)
    if options.sif and not options.fs_license:
        return _fail("--sif needs --fs-license")
    sessions = find_images(options.bids_dir, options.subject)
    if not sessions:
        return _fail(f"{options.bids_dir / options.subject} has no session with a T1w image")
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for name, arguments in _steps(options.subject, sessions, options.threads):
        if _is_done(options.output_dir / name / DONE):
            print(f"{name}: complete, skipped", flush=True)
            continue
        command = _command(options, arguments)
        print(f"{name}: {' '.join(command)}", flush=True)
        code = subprocess.run(command, check=False).returncode
        if code != 0:
            _fail(f"{name}: recon-all ended with exit code {code}")
            return code if code > 0 else 128 - code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="FreeSurfer for all sessions of a subject")
    parser.add_argument("--bids-dir", type=Path, required=True)
    parser.add_argument("--output-dir", type=Path, required=True, help="FreeSurfer's SUBJECTS_DIR")
    parser.add_argument("--subject", required=True, help="with 'sub-'")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--sif", type=Path, help="Apptainer image of FreeSurfer (default: recon-all on PATH)")
    parser.add_argument("--fs-license", type=Path)
    return parser


def find_images(bids: Path, subject: str) -> Dict[str, Images]:
    """Return the images to use by session, without sessions that lack a T1w image."""
    found = {}
    for session in sorted(path for path in (bids / subject).glob("ses-*") if path.is_dir()):
        t1, t2 = (_choose(session / "anat", kind) for kind in ("T1w", "T2w"))
        if t1 is not None:
            found[session.name] = Images(t1, t2)
    return found


def _choose(folder: Path, kind: str) -> Optional[Path]:
    """Choose an image normalised by the scanner (rec-norm), else the first by name, but never a defaced one."""
    images = [path for path in folder.glob(f"*_{kind}.nii.gz") if "defaced" not in path.name]
    return min(images, key=lambda path: ("rec-norm" not in path.name, path.name), default=None)


def _steps(subject: str, sessions: Dict[str, Images], threads: int) -> "List[tuple[str, List[str]]]":
    """Return the directories below SUBJECTS_DIR, each with its recon-all arguments."""

    def cross(name: str, images: Images) -> "tuple[str, List[str]]":
        t2 = ["-T2", str(images.t2), "-T2pial"] if images.t2 else []
        return name, ["-s", name, "-i", str(images.t1), *t2, "-all", "-parallel", "-openmp", str(threads)]

    if len(sessions) == 1:
        return [cross(subject, images) for images in sessions.values()]
    runs = {f"{subject}_{session}": images for session, images in sessions.items()}
    points = [word for run in runs for word in ("-tp", run)]
    base = ["-base", subject, *points, "-all", "-parallel", "-openmp", str(threads)]
    # Without -parallel: longitudinal runs of FreeSurfer 8 fail with it.
    long = [(f"{run}.long.{subject}", ["-long", run, subject, "-all", "-openmp", str(threads)]) for run in runs]
    return [*(cross(run, images) for run, images in runs.items()), (subject, base), *long]


def _command(options: argparse.Namespace, arguments: List[str]) -> List[str]:
    # Directories have the same paths inside and outside the container.
    prefix: List[str] = []
    if options.sif:
        places = [f"{options.bids_dir}:{options.bids_dir}:ro", str(options.output_dir), str(options.fs_license)]
        prefix = ["apptainer", "exec", "--bind", ",".join(places), "--env", f"FS_LICENSE={options.fs_license}", str(options.sif)]
    return [*prefix, "recon-all", "-sd", str(options.output_dir), *arguments]


def _is_done(file: Path) -> bool:
    """Return whether recon-all succeeded: it then writes its data, and after a failure its exit code."""
    try:
        return "SUBJECT" in file.read_text(errors="replace")
    except OSError:
        return False


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
