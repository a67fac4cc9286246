"""The commands of *From laptop to cluster*, as they stand there, on this machine: launchers start processes here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "cluster.md").read_text()
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
EACH = """#!/bin/bash
{take}
for i in 0 1; do
  {variables} "$@" & started+=($!)
done
for one in "${{started[@]}}"; do wait $one || status=$?; done
exit $status
"""
LAUNCHERS = {
    "eqprop": f'#!/bin/bash\nexec {sys.executable} -m eqprop "$@"\n',
    "ssh": '#!/bin/bash\nshift\nexec bash -c "$*"\n',
    "srun": EACH.format(
        take="",
        variables="SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$i SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=$$",
    ),
    "mpirun": EACH.format(take="shift 2", variables="OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$i"),
}
# Names of machines that are not there, and what a pod of Kubernetes finds in its environment.
HERE = {"node1 node2": "localhost localhost", "$(hostname)": "localhost", "$JOB-0.trainer": "localhost"}
PODS = "export RUNS=runs PODS=2\nfor JOB_COMPLETION_INDEX in 0 1; do\n{command} &\ndone\nwait\n"


@pytest.mark.slow
def test_every_command_of_the_page_trains(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name, text in LAUNCHERS.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    environ = os.environ | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    for command in COMMANDS:
        script = command
        for there, here in HERE.items():
            script = script.replace(there, here)
        if "JOB_COMPLETION_INDEX" in command:
            script = PODS.format(command=script.rstrip())
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        for folder in re.findall(r"(?:--run-dir |run=)\S*?(\w+)\s", command):
            found = tmp_path / "runs" / ("slurm" if folder == "run" else folder) / "result.json"
            assert found.exists(), f"{command}\n{done.stdout}\n{done.stderr}"
    assert len(COMMANDS) == 8
