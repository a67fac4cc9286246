"""Measurements in processes of their own: a peak of memory does not come down, and threads that have begun stay."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def apart(call: str, cores: set[int] | None = None) -> Any:
    """What `call`, such as "memory.measure('ours', 20)", returns in a fresh process, as JSON has it.

    `call` begins with the name of a file in `benchmarks`. The process is bound to `cores`, if any are given, before a
    library starts its threads. It prints where this one does.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        bind = f"import os; os.sched_setaffinity(0, {cores}); " if cores else ""
        module = call.split(".")[0]
        code = f"{bind}import json, pathlib; from benchmarks import {module}; "
        code += f"pathlib.Path({str(answer)!r}).write_text(json.dumps({call}))"
        subprocess.run([sys.executable, "-c", code], check=True)
        return json.loads(answer.read_text())


def one_core() -> set[int] | None:
    """A core to bind a process to; None where the system cannot do that."""
    return {max(os.sched_getaffinity(0))} if hasattr(os, "sched_getaffinity") else None
