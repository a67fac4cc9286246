"""The process in which cases are carried out, one after the other: `python -m campaign.worker KIND SEED FIRST STOP`.

Before each case it says what it tries, so that what ended or held up the process is known.
"""

import json
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from campaign.parsers import keep_parsers

MOST_MEMORY = 3 * 10**9
AGAIN = 75  # the exit status of a worker that has grown and wants to be replaced


def main(kind: str, seed: int, first: int, stop: int) -> int:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what cases print is not read
    home = Path(tempfile.mkdtemp(prefix="campaign-"))
    os.chdir(home)
    keep_parsers()
    attacks: Any = import_module(f"campaign.{kind}")
    attacks.prepare()

    def tell(case: int, **more: str) -> None:
        out.write(json.dumps({"case": case, **more}) + "\n")

    try:
        for case in range(first, stop):
            folder = home / str(case)
            folder.mkdir()
            os.chdir(folder)
            tell(case, what="…")
            outcome = attacks.attack(
                Random(f"{kind} {seed} {case}"), folder, lambda what, case=case: tell(case, what=what)
            )
            tell(case, word=outcome.word, detail=outcome.detail)
            os.chdir(home)
            shutil.rmtree(folder, ignore_errors=True)
            if memory() > MOST_MEMORY:
                return AGAIN
    finally:
        os.chdir("/")
        shutil.rmtree(home, ignore_errors=True)
    return 0


def memory() -> int:
    """The bytes that this process has in memory."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


if __name__ == "__main__":
    kind, *numbers = sys.argv[1:]
    sys.exit(main(kind, *map(int, numbers)))
