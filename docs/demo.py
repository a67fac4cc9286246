"""The network and the images of the demonstration without a server: eqprop/page/static/demo-data.js.

    eqprop train digits --hidden 32 --run-dir runs/demo
    python docs/demo.py runs/demo

writes it anew. Images are bytes from 0 to 16, as scikit-learn has them; weights are float32, row by row. Both are in
base64.
"""

import base64
import json
import sys
from pathlib import Path

import numpy as np

from eqprop import data
from eqprop.data.digits import LEVELS
from eqprop.store import checkpoint

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "eqprop" / "page" / "static" / "demo-data.js"
LEARNED, TESTED = 240, 100  # images to learn from, and images to look at


def encoded(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def images(split: data.Split, count: int) -> dict[str, str]:
    """The first images of a split and their labels, one digit each."""
    pixels = np.round(split.x[:count] * LEVELS).astype(np.uint8)
    return {"pixels": encoded(pixels), "labels": "".join(map(str, split.y[:count].argmax(1)))}


def demonstration(folder: Path) -> dict[str, object]:
    """What the page needs of a trained 64-n-10 network."""
    theta, _ = checkpoint.read(folder / "weights.safetensors")
    digits = data.load("digits")
    layers = ["input-hidden", "hidden-output"]
    return {
        "sizes": [*(theta[f"W/{name}"].shape[0] for name in layers), len(digits.classes)],
        "weights": [encoded(theta[f"W/{name}"].astype("<f4")) for name in layers],
        "biases": [encoded(theta[f"b/{name}"].astype("<f4")) for name in ("hidden", "output")],
        "learn": images(digits.train, LEARNED),
        "test": images(digits.test, TESTED),
    }


if __name__ == "__main__":
    text = json.dumps(demonstration(Path(sys.argv[1])), indent=1)
    TARGET.write_text(f"// Written by docs/demo.py, which says how.\nexport const DEMO = {text};\n")
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size / 1000:.0f} kB")
