"""Notebooks made from the tutorials: `python docs/notebooks.py` writes docs/notebooks/, with what the code shows.

A block of Python is a cell, and all between is text. What a tutorial prints is not copied: each cell is run.
`tests/test_notebook.py` sees that the notebooks are those of the tutorials, and runs them.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat

DOCS = Path(__file__).parent
NAMES = ("first-energy", "paper-in-ten-minutes", "own-energy", "nudges-and-relaxations", "scikit-learn")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n?", flags=re.MULTILINE | re.DOTALL)
SETUP = "%pip install --quiet {where}  # where it is not installed yet; in a clone: %pip install ../.."


def made(name: str, where: str = "eqprop") -> Any:
    """The notebook of a tutorial, not yet run; `where` is what pip installs."""
    text = (DOCS / "tutorials" / f"{name}.md").read_text()
    title, _, rest = text.partition("\n")
    cells = [_words(title), _code(f"# {SETUP.format(where=where)}")]
    last = 0
    for block in BLOCK.finditer(rest):
        cells += [_words(rest[last : block.start()]), *([_code(block[2])] if block[1] == "python" else [])]
        if block[1] not in ("python", "text"):  # a command, or other words
            cells.append(_words(block[0]))
        last = block.end()
    cells.append(_words(rest[last:]))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        cell.id = f"{name}-{number}"  # the same each time
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(notebook: Any) -> Any:
    """The notebook with what its cells show."""
    from nbclient import NotebookClient

    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute()
    for cell in notebook.cells:  # the address of what was last in a cell says nothing to a reader
        cell.metadata = {}
    return notebook


def links(name: str, repository: str | None) -> str:
    """The line below the title of a tutorial: its notebook, and where the project has an address, the same in Colab."""
    there = f"[This page as a notebook](../notebooks/{name}.ipynb)"
    if repository and "github.com/" in repository:
        place = repository.split("github.com/")[1].strip("/").removesuffix(".git")
        colab = f"https://colab.research.google.com/github/{place}/blob/main/docs/notebooks/{name}.ipynb"
        there += f" · [open it in Colab]({colab})"
    return f"*{there}*\n"


def _beside(name: str) -> str:
    """Where a tutorial is, from the folder of the notebooks."""
    return f"{name}.ipynb" if name in NAMES else f"../tutorials/{name}.md"


def _code(text: str) -> Any:
    return nbformat.v4.new_code_cell(text.strip())


def _words(text: str) -> Any:
    """Markdown as notebooks have it: links lead to notebooks and pages; those to the reference are words."""
    text = re.sub(r"\[([^\]]*)\]\[[^\]]*\]", r"\1", text)
    text = re.sub(r"(?<=\]\()([\w-]+)\.md", lambda to: _beside(to[1]), text)
    return nbformat.v4.new_markdown_cell(text.strip())


if __name__ == "__main__":
    for chosen in sys.argv[1:] or NAMES:
        path = DOCS / "notebooks" / f"{chosen}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(run(made(chosen)), path)
        print(path)
