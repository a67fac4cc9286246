"""`eqprop live`: watch a network settle, be nudged and learn, in the browser."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from eqprop.cli.console import screen
from eqprop.errors import InputError
from eqprop.store.ranges import HeldOut, check_options


@dataclass(frozen=True)
class Live:
    """Watch a network settle, be nudged and learn, on a page in the browser."""

    what: tyro.conf.Positional[str] = "digits"
    """the folder of a run, or a data set: digits, mnist, fashion, cifar10"""
    updates: HeldOut | None = None
    """of a data set: minibatches to learn first; None: 500 or an epoch, the fewer; 0 for networks of convolutions"""
    host: str = "127.0.0.1"
    """the address to serve on; others than this machine's own let everybody in who knows the address"""
    port: int | None = None
    """None: 8753, or any that is free"""
    browser: bool = True
    """open the page in the browser"""
    data_dir: Path | None = None
    """folder with the data set's own files; None: the cache, filled from public sources"""

    def run(self) -> None:
        from eqprop.page import scene_of_data, scene_of_run
        from eqprop.page.running import require, serve

        def say(words: str) -> None:
            screen.print(words, markup=False, highlight=False, soft_wrap=True)

        check_options(self)
        require("websockets")
        if self.port is not None and not 0 <= self.port < 65536:
            raise InputError(f"--port {self.port}: give a number from 0 to 65535")
        if Path(self.what).is_dir():
            if self.updates is not None:
                raise InputError(f"--updates {self.updates} does nothing for a run that is trained: leave it out")
            scene = scene_of_run(Path(self.what), self.data_dir, say)
        else:
            scene = scene_of_data(self.what, self.data_dir, say, updates=self.updates)
        serve(scene, self.host, self.port, browser=self.browser, say=say)
