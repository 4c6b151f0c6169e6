"""What a hostile reader of transforms, passes, checkpoints and reasons found."""

import numpy as np
import pytest

import autodiff as ad


# Checkpoints


def test_a_checkpoint_that_captures_other_tensors_when_it_runs_again_says_so():
    x, ws = ad.Var(1.5), [ad.Var(1.0) for _ in range(3)]  # of one value, so the result tells no difference
    late, bound = x, x
    for w in ws:
        late = ad.checkpoint(lambda a: a * w)(late)  # noqa: B023
        bound = ad.checkpoint(lambda a, w=w: a * w)(bound)
    assert [bound.backward()[w].item() for w in ws] == [1.5] * 3
    with pytest.raises(RuntimeError, match="captured other tensors .* of a loop"):
        late.backward()

    cache = {}

    def cached(a):
        cache.setdefault("w", np.exp(ws[0]))
        return a * cache["w"]

    def lazy(a):
        cache.setdefault("own", ad.Var(2.0))
        return a * cache["own"]

    for f in (cached, lazy):
        with pytest.raises(RuntimeError, match="captured other tensors .* keeps results"):
            ad.checkpoint(f)(x).backward()
        assert ad.checkpoint(f)(x).backward()[x].item() == (np.e if f is cached else 2)  # computed before


def test_a_checkpoint_may_make_constants_once():
    made, x = [], ad.Var([1.0, 2.0])

    def masked(a):
        made.append(ad.Tensor([0.0, 1.0])) if not made else None
        return (a * made[0] * a).sum()

    assert ad.checkpoint(masked)(x).backward()[x].data.tolist() == [0, 4]


def test_a_checkpoint_keeps_its_arguments_with_structure_as_they_were():
    x, c = ad.Var([0.0, 0.0]), np.array([2.0, 3.0])  # at 0, so the result tells no difference
    for f in (lambda x, p: (x * p["c"][0]).sum(), lambda x, p: (p["x"] * p["c"].pop()).sum() + 0 * x.sum()):
        p = {"c": [c.copy()], "x": x}
        y, z = ad.checkpoint(f)(x, {**p, "c": list(p["c"])}), ad.checkpoint(f)(x, p)
        if p["c"]:
            p["c"][0][:] = 7
        p["c"], p["x"] = [np.zeros(2)], ad.Var([0.0, 0.0])
        for _ in range(2):
            assert (y + z).backward()[x].data.tolist() == [4, 6]
    log, y = [], ad.Var(2.0)
    assert ad.checkpoint(lambda a, log: log.append(a.item()) or a * a)(y, log=log).backward()[y].item() == 4
    assert log == [2]
