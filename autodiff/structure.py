"""Arguments with structure: nested tuples, lists and dicts, with arrays, numbers or tensors as their leaves.

None is an empty place: it holds no leaf, and stays None.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator


def walk(tree, name: str = "", *others) -> Iterator[tuple]:
    """For every leaf ``(path, leaf, *what stands at its place in each of the others)``; a path is like name['w'][0].

    ValueError when one of the others lacks a place, or has one that `tree` lacks.
    """
    if isinstance(tree, (tuple, list, dict)):
        keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
        for other in others:
            _refuse_unlike(tree, other, keys, name)
        for key in keys:
            yield from walk(tree[key], f"{name}[{key!r}]", *[other[key] for other in others])
    elif tree is not None:
        yield (name, tree, *others)
    else:
        for other in others:
            if other is not None:
                raise ValueError(f"{name}: expected None, as there is no leaf, got a {type(other).__name__}")


def leaves(tree) -> list:
    """The leaves, in the order of `walk`."""
    return [leaf for _, leaf in walk(tree)] if isinstance(tree, (tuple, list, dict)) else [tree] * (tree is not None)


def rebuilt(tree, new: Iterator):
    """A structure like `tree`, each of its leaves replaced by the next of `new`."""
    if isinstance(tree, dict):
        made = {} if type(tree) is dict else copy.copy(tree)
        for key, item in tree.items():
            made[key] = rebuilt(item, new)  # not by `update`, which adds in a Counter
        return made
    if isinstance(tree, (tuple, list)):
        items = [rebuilt(item, new) for item in tree]
        if isinstance(tree, tuple):
            return tree._make(items) if hasattr(tree, "_make") else type(tree)(items)
        if type(tree) is list:
            return items
        made = copy.copy(tree)
        made[:] = items
        return made
    return None if tree is None else next(new)


def _refuse_unlike(tree, other, keys, name: str) -> None:
    if isinstance(tree, dict):
        there = other.keys() if isinstance(other, dict) else None
        expected = f"a dict with the keys {', '.join(map(repr, keys))}"
        got = "the keys " + ", ".join(map(repr, there)) if there is not None else f"a {type(other).__name__}"
        same = there is not None and there == keys
    else:
        same = isinstance(other, (tuple, list)) and len(other) == len(tree)
        expected = f"a {type(tree).__name__} of length {len(tree)}"
        got = f"length {len(other)}" if isinstance(other, (tuple, list)) else f"a {type(other).__name__}"
    if not same:
        raise ValueError(f"{name}: expected {expected}, got {got}")
