"""How long `import eqprop` takes beside `import jax, equinox, optax`, in fresh processes, taken in turns.

python benchmarks/import_time.py [ROUNDS]
"""

import subprocess
import sys
from statistics import median

MEASURE = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def seconds(modules: str) -> float:
    done = subprocess.run([sys.executable, "-c", MEASURE.format(modules)], capture_output=True, text=True, check=True)
    return float(done.stdout)


rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
pairs = [(seconds("jax, equinox, optax"), seconds("eqprop")) for _ in range(rounds)]
base, ours = (median(times) for times in zip(*pairs, strict=True))
ratio = median(b / a for a, b in pairs)
print(f"jax, equinox, optax {base:.2f} s   eqprop {ours:.2f} s   ratio {ratio:.2f} (median of {rounds} rounds)")
