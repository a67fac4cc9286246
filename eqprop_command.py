"""The command `eqprop`: outside of the package, which takes a second to load, so that Ctrl-C is heeded meanwhile."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Load the library, and run the command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored under nohup
        signal.signal(signal.SIGINT, _leave)
    from eqprop.cli.main import main

    sys.exit(main())


def _leave(number: int, _: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(128 + number)
