"""A circuit given as pairs of node names, sorted into layers."""

from typing import NamedTuple

from eqprop.errors import InputError


class Plan(NamedTuple):
    """The nodes of each layer, those that are held first, and the pairs of nodes by the layers they lie in."""

    layers: dict[str, list[str]]
    pairs: dict[tuple[str, str], list[tuple[int, int]]]


def sort(resistors: list[tuple[str, str]], inputs: list[str], outputs: list[str], rails: list[str]) -> Plan:
    """Inputs and rails, outputs, and the others in layers within which no two nodes are joined."""
    held = [*inputs, *rails]
    _check(resistors, held, outputs)
    neighbours: dict[str, set[str]] = {}
    for a, b in resistors:
        neighbours.setdefault(a, set()).add(b)
        neighbours.setdefault(b, set()).add(a)
    layers: dict[str, list[str]] = {"input": held}
    colour: dict[str, int] = {}
    for node in neighbours:
        if node not in held and node not in outputs:
            taken = {colour[other] for other in neighbours[node] if other in colour}
            colour[node] = next(k for k in range(len(colour) + 1) if k not in taken)
    for node, k in sorted(colour.items(), key=lambda item: item[1]):
        layers.setdefault(f"inner{k + 1}", []).append(node)
    layers["output"] = outputs
    place = {node: (layer, i) for layer, nodes in layers.items() for i, node in enumerate(nodes)}
    order = list(layers)
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for a, b in resistors:
        (pre, i), (post, j) = sorted((place[a], place[b]), key=lambda at: order.index(at[0]))
        pairs.setdefault((pre, post), []).append((i, j))
    return Plan(layers, pairs)


def _check(resistors: list[tuple[str, str]], held: list[str], outputs: list[str]) -> None:
    special = [*held, *outputs]
    if twice := sorted({node for node in special if special.count(node) > 1}):
        raise InputError(f"node {twice[0]!r} is named twice among inputs, outputs and rails: name it once")
    if not outputs:
        raise InputError("outputs=[]: name at least one node that the cost looks at")
    for pair in resistors:
        if len(pair) != 2 or pair[0] == pair[1]:
            raise InputError(f"resistor {pair!r} does not join two nodes: give a pair of different names")
        if {*pair} <= {*held}:
            raise InputError(f"resistor {pair!r} joins two nodes that are held, which changes nothing: drop it")
    joined = {node for pair in resistors for node in pair}
    if loose := sorted({*special} - joined):
        raise InputError(f"no resistor is joined to node {loose[0]!r}: join it or drop it")
    reached, more = {*held} & joined, True
    while more:
        new = {node for pair in resistors for node in pair if {*pair} & reached} - reached
        reached, more = reached | new, bool(new)
    if afloat := sorted(joined - reached):
        raise InputError(f"node {afloat[0]!r} has no way to an input or a rail, so its voltage is not determined")
