"""Where figures come from: the commands, the date, the machine and the versions, to be shown with them."""

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def machine_and_versions() -> dict[str, Any]:
    """What figures are measured with."""
    versions = {}
    for package in ("eqprop", "jax", "jaxlib", "numpy", "torch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions,
    }


def footer(commands: Sequence[str]) -> str:
    """The commands, the date and the machine."""
    about = ", ".join(f"{key} {value}" for key, value in machine_and_versions().items())
    return f"*{', '.join(f'`{command}`' for command in commands)}, {time.strftime('%Y-%m-%d')}: {about}.*"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
