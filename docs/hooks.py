"""What MkDocs does besides: it adds the demonstration without a server, as one file that needs nothing else."""

from typing import Any

from mkdocs.structure.files import File, Files

from eqprop.page.bundle import standalone


def on_files(files: Files, config: Any) -> Files:
    files.append(File.generated(config, "demo.html", content=standalone()))
    return files
