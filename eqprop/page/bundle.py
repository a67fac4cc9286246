"""The page's modules joined to one, for notebooks and for pages that are opened without a server.

Browsers refuse ES modules of pages that come from the file system, and anywidget takes one module only. All modules are
written for this: an import is one line, names are unique among all of them, and nothing is exported by default.
"""

import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
IMPORT = re.compile(r'^import \{[^}\n]*\} from "\./([\w-]+\.js)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)


def bundle(*names: str) -> str:
    """The modules of these names and all that they import, each after those it needs, as one text without exports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # modules that import each other are joined in the order in which they are met
        text = (STATIC / name).read_text(encoding="utf-8")
        for needed in IMPORT.findall(text):
            add(needed)
        del done[name]
        done[name] = EXPORT.sub("", IMPORT.sub("", text)).strip()

    for name in names:
        add(name)
    return "\n\n".join(done.values()) + "\n"


def classic(*names: str, then: str = "") -> str:
    """The same as a classic script, which keeps its names to itself and ends with the statement `then`."""
    return f'(() => {{\n"use strict";\n{bundle(*names)}\n{then}\n}})();\n'


def standalone() -> str:
    """The demonstration without a server as one HTML file, which also opens from the file system."""
    text = (STATIC / "demo.html").read_text(encoding="utf-8")
    for style in ("vendor/uPlot.min.css", "style.css"):
        link = f'<link rel="stylesheet" href="{style}">'
        text = _put(text, link, f"<style>\n{(STATIC / style).read_text(encoding='utf-8')}</style>")
    library = (STATIC / "vendor" / "uPlot.iife.min.js").read_text(encoding="utf-8")
    text = _put(text, '<script src="vendor/uPlot.iife.min.js"></script>', f"<script>\n{library}</script>")
    text = _put(text, '<script type="module" src="demo.js"></script>', "")
    return _put(text, "</body>", f"<script>\n{classic('demo.js')}</script>\n</body>")


def _put(text: str, old: str, new: str) -> str:
    """`new` in the place of `old`, which stands there once."""
    before, found, after = text.partition(old)
    if not found:
        raise ValueError(f"the page lacks {old!r}")
    return before + new + after
