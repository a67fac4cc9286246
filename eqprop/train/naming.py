"""Names for the arrays of a tree."""

from typing import Any

import jax


def named(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their paths: {"W/input-hidden": …}."""
    leaves = jax.tree.flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
