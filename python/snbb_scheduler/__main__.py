"""Run the program as ``python -m snbb_scheduler``, even if pip's program directory is not on PATH."""

from __future__ import annotations

import os
import sys

from ._program import program


def main() -> None:
    try:
        name = program()
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execv(name, [name, *sys.argv[1:]])


if __name__ == "__main__":
    main()
