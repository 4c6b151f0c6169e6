"""Freeing a deep graph in a loop where Python would do it by recursion."""

from __future__ import annotations

import sys
import threading
from random import Random

draw = Random(0).getrandbits


class FreedInTurn:
    """A node whose links to others are cut in a loop when it goes, so that a deep graph needs no deep stack.

    CPython does so by itself, except 3.13: what ends its recursion there is a count of 10,000 calls, and a thread with
    a stack below 1 MB is at its end before that, and the process with it. One node in sixteen does it, drawn at random:
    no chain is so regular that it misses them.
    """

    __slots__ = ()

    if sys.version_info[:2] == (3, 13):

        def __del__(self):
            if draw(4):
                return
            try:
                links = self._inputs, self._rule, self._params
            except AttributeError:  # its making failed
                return
            if turn.waiting is not None:
                turn.waiting.append(links)
                return
            turn.waiting = waiting = [links]
            self._inputs = self._rule = self._params = links = None
            try:
                while waiting:
                    waiting.pop()
            finally:
                turn.waiting = None


class _Turn(threading.local):
    waiting: list | None = None  # links of nodes that are gone, while the first of these nodes cuts them


turn = _Turn()
