"""Fixtures for all tests."""

import gc
import os
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from typing import Any

# Without it, scikit-learn leaves one of its checks out; SciPy reads it when it is imported.
os.environ["SCIPY_ARRAY_API"] = "1"

import jax
import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# The annotations of the core are checked while tests run. That happens while programs are traced, and costs nothing in
# compiled ones. Energies, relaxations and training are left out: they take NumPy arrays and whole numbers too, where
# their annotations say what they are in compiled programs, arrays of JAX. So is `total`, which refuses in words what is
# no function, or no number.
TYPED = ("cost", "nudge", "readout", "rule.base", "rule.equilibrium", "rule.implicit", "state")
with install_import_hook([f"eqprop.{room}" for room in TYPED], "typed.check"):
    from eqprop.compile import compile_quickly

compile_quickly()  # for the processes that tests start as well
if version("jaxlib").startswith("0.10."):  # XLA ends the process at an option that it does not know
    # By itself, XLA cuts a program into 32 pieces to compile them side by side, which takes a third longer in all.
    os.environ["XLA_FLAGS"] += " --xla_cpu_parallel_codegen_split_count=1"

# Both workers, the processes that tests start, and the next run share what was compiled.
STORE = {
    "jax_compilation_cache_dir": str(Path(__file__).parent.parent / ".pytest_cache" / "jax"),
    "jax_persistent_cache_min_compile_time_secs": 0.1,
    "jax_persistent_cache_min_entry_size_bytes": -1,
    # Most programs here run for milliseconds: to compile them well takes longer than they do.
    "jax_disable_most_optimizations": True,
}
for option, value in STORE.items():
    jax.config.update(option, value)
    os.environ[option.upper()] = str(value)

# The first example of a property compiles, which takes seconds; the machine may be busy with others.
settings.register_profile("eqprop", deadline=None)
settings.load_profile("eqprop")


# Tracing makes millions of objects that stay: to look through them for garbage so often finds none.
gc.set_threshold(50_000, 10, 10)

PAGE = Path(__file__).parent.parent / "eqprop" / "page" / "static"
MAPS = Path("/proc/self/maps")
MOST_MAPS = 16_000  # of the 65 530 that Linux lets a process have, which take about 3 GB


@pytest.fixture(scope="module", autouse=True)
def few_programs() -> Iterator[None]:
    """Modules share their programs; all are forgotten when they have taken most of the process's memory maps."""
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


@pytest.fixture
def x64() -> Iterator[None]:
    """Double precision, for comparisons with derivatives."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not (chromium := Path("/usr/bin/chromium")).exists():
        pytest.skip("chromium is not installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        yield browser
        browser.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def page_files() -> Iterator[str]:
    """The address of the live page's files, without a server that computes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PAGE)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
