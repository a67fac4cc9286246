"""What MkDocs does besides: pages that are made from the code, and links to notebooks."""

from pathlib import Path
from typing import Any

import commands  # beside this file
import notebooks
from mkdocs.structure.files import File, Files

import eqprop
from eqprop.page.bundle import standalone


def on_config(config: Any) -> Any:
    """Below each page: the version that it is about. A release keeps its site in a folder of its own."""
    config.copyright = f"eqprop {eqprop.__version__}, {config.copyright}"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the demonstration without a server, as one file that needs nothing else, and the page on the command line."""
    files.append(File.generated(config, "demo.html", content=standalone()))
    files.append(File.generated(config, "commands.md", content=commands.page()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Below the title of a tutorial: its notebook."""
    name = Path(page.file.src_uri).stem
    if not page.file.src_uri.startswith("tutorials/") or name not in notebooks.NAMES:
        return markdown
    title, _, rest = markdown.partition("\n")
    return f"{title}\n\n{notebooks.links(name, config.repo_url)}\n{rest}"
