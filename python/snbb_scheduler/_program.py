"""Find and run the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, Mapping, Optional, Sequence, Union

if TYPE_CHECKING:
    StrPath = Union[str, "os.PathLike[str]"]
    Completed = subprocess.CompletedProcess[str]

NAME = "snbb-scheduler"


class SchedulerError(RuntimeError):
    """The program failed; the message is the program's own.

    It has the ``returncode``, ``stdout`` and ``stderr`` of the process.
    """

    def __init__(self, args: Sequence[str], returncode: int, stdout: str, stderr: str) -> None:
        said = stderr.strip() or stdout.strip() or "no message"
        super().__init__(f"{NAME} {' '.join(args)}: exit code {returncode}\n{said}")
        self.returncode = returncode
        self.stdout = stdout
        self.stderr = stderr


def program() -> str:
    """Return the path of the program in this package, else of the first one on ``PATH``.

    Raise FileNotFoundError if there is none.
    """
    for directory in _directories():
        found = shutil.which(NAME, path=directory)
        if found:
            return found
    found = shutil.which(NAME)
    if found:
        return found
    raise FileNotFoundError(
        f"the program {NAME} is neither beside this package nor on PATH: "
        f"install it with 'pip install {NAME}', or add its directory to PATH"
    )


def _directories() -> Iterator[str]:
    """List the directories where pip may have put the program of this package."""
    package = Path(__file__).resolve().parent
    yield str(package.parent / "bin")  # pip install --target
    # <prefix>/lib/python3.x/site-packages/snbb_scheduler; lib64 and dist-packages alike
    if len(package.parents) > 3 and package.parents[2].name.startswith("lib"):
        yield str(package.parents[3] / "bin")
    yield sysconfig.get_path("scripts")
    user = "posix_user" if os.name == "posix" else "nt_user"
    yield sysconfig.get_path("scripts", user)


def run(
    args: Sequence[str],
    *,
    config: Optional[StrPath] = None,
    check: bool = False,
    timeout: Optional[float] = None,
    env: Optional[Mapping[str, str]] = None,
) -> Completed:
    """Run the program with these arguments, such as ``["status", "--failed"]``, and return its output.

    ``config`` is the configuration (default: ``SNBB_CONFIG``, as in a shell). With ``check``, an exit
    code other than 0 raises SchedulerError; README.md lists the codes. ``timeout`` is in seconds.
    """
    if isinstance(args, (str, bytes)):
        raise TypeError(f"args must be a list, such as ['status', '--failed'], not {args!r}")
    words = [os.fspath(word) for word in args]
    done = subprocess.run(
        [program(), *_config_words(config), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        timeout=timeout,
        env=None if env is None else dict(env),
        check=False,
    )
    if check and done.returncode != 0:
        raise SchedulerError(words, done.returncode, done.stdout, done.stderr)
    return done


def path(file: str = "state", *, config: Optional[StrPath] = None) -> Path:
    """Return the path of a state file: ``state``, ``attempts``, ``audit``, ``journal``, ...

    Asks ``snbb-scheduler state path``. The file need not exist.
    """
    words = ["state", "path", file]
    # Bytes, because a path need not be UTF-8.
    done = subprocess.run(
        [program(), "--quiet", *_config_words(config), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        stderr = done.stderr.decode("utf-8", "replace")
        raise SchedulerError(words, done.returncode, "", stderr)
    line = done.stdout
    return Path(os.fsdecode(line[:-1] if line.endswith(b"\n") else line))


def _config_words(config: Optional[StrPath]) -> Sequence[str]:
    return [] if config is None else ["--config", os.path.expanduser(os.fspath(config))]
