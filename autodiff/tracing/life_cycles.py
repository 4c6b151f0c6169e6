"""A backward pass as one of the life-cycles of `autodiff.contracts` has it: where gradients are, before and after."""

from __future__ import annotations

import copy

import numpy as np

from .. import contracts
from ..backward import backward
from ..drawing.view import Graph
from ..graph import sorted_nodes
from .passes import Teller

# What the place is called where the gradients are while the pass runs.
PLACES = {"candle": "Gradient store", "pytorch": "Gradients on their way, then .grad", "burn": "Gradient container",
          "reset": "Gradients on the nodes"}  # fmt: skip


def kind_of(contract) -> str:
    """Which of the four life-cycles `contract` is. TypeError when it is none."""
    for name in PLACES:
        if isinstance(contract, getattr(contracts, name)):
            return name
    called = f"; call it: ad.contracts.{contract.__name__}()" if isinstance(contract, type) else ""
    raise TypeError(f"contract= takes a life-cycle of ad.contracts, {', '.join(PLACES)}, got {contract!r}{called}")


def contract_pass(root, tell, graph: Graph, contract, *args, **options) -> dict:
    """Tell what ``contract.backward(root, *args, **options)`` does. The gradients shown after it: tensor -> array.

    `contract` is left as it is. Raises what that backward raises.
    """
    twin = copy.copy(contract)
    vars(twin).update({name: copy.copy(value) for name, value in vars(contract).items()})
    twin.backward(root, *args, **options)  # refuses what has to be refused, before anything is told
    return _PASSES[kind_of(contract)](root, tell, graph, contract, *args, **options)


def _candle(root, tell, graph, contract, detach=True):
    store = backward(root, detach="taken" if detach else "none", zeros=True, rules=contracts.candle.RULES,
                     watch=Teller(tell))  # fmt: skip
    return _arrays(store, graph)


def _burn(root, tell, graph, contract):
    return _of_vars(root, tell, graph, None, ())


def _pytorch(root, tell, graph, contract, gradient=None, retain_graph=False):
    kept = [t for t in sorted_nodes(root) if t.id in contract._retained]
    return _kept(_of_vars(root, tell, graph, gradient, kept), tell, graph, contract, adds=True)


def _of_vars(root, tell, graph, gradient, kept) -> dict:
    """The gradients of a pass that has none for plain tensors."""
    found = _arrays(_to_vars(root, tell, gradient, keep=kept), graph)
    if root in found and not sorted_nodes(root):
        del found[root]
        tell("skip", root, None, reason="it leads to no Var", stored=(root, None))
    return found


def _to_vars(root, tell, gradient=None, *, keep, **options):
    """A pass that goes to Vars and to `keep` alone, or no further than a root that leads to none."""
    targets = [*(t for t in sorted_nodes(root) if t.is_variable), *keep]
    watch = Teller(tell, "it is no Var, and only those get a gradient here")
    return backward(root, gradient, wrt=targets or [root], watch=watch, **options)


def _reset(root, tell, graph, contract):
    order = sorted_nodes(root) or [root]
    for t in order:
        if contract.grad(t) is not None:
            zero = np.zeros(t._shape, t._array.dtype)
            tell("zero", t, None, zero, before=contract.grad(t), stored=(t, zero))
    new = _arrays(_to_vars(root, tell, keep=order, zeros=True), graph)
    return _kept(new, tell, graph, contract, adds=False)


_PASSES = {"candle": _candle, "pytorch": _pytorch, "burn": _burn, "reset": _reset}


def _arrays(store, graph: Graph) -> dict:
    return {t: store[t].data for t in graph.by_node if t in store}


def _kept(new: dict, tell, graph: Graph, contract, adds: bool) -> dict:
    """Where gradients outlive the pass: what came is added to what was there, and what was not reached stays."""
    shown = {}
    for t in graph.by_node:
        share, old = new.get(t), contract.grad(t)
        if share is None and old is None:
            continue
        if share is None or not adds:
            shown[t] = old if share is None else share
        else:
            shown[t] = share if old is None else np.asarray(old + share)
        if share is None or adds:
            tell("keep", t, None, share, before=old, stored=(t, shown[t]))
    return shown
