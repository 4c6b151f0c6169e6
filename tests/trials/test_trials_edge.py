"""Where Tensors meet the world outside: what comes in, what must not leave in silence, and what the messages say."""

import gc
import math
import operator
import pickle
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autodiff as ad
from autodiff.familiar import ATTRIBUTES, FUNCTIONS, KEYWORDS, NUMPYS, OURS
from autodiff.rules.hints import OF_SCIPY

pytestmark = pytest.mark.filterwarnings("ignore:the matrix subclass")


class Series:
    """What pandas.Series does around operators: it asks for a priority first, converts, and has a ufunc hook."""

    __pandas_priority__ = 3000

    def __init__(self, data):
        self.values = np.asarray(data, float)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if any(hasattr(type(x), "__array_ufunc__") and not isinstance(x, (Series, np.ndarray)) for x in inputs):
            return NotImplemented
        return Series(ufunc(*[np.asarray(x) for x in inputs]))

    def _binary(self, other, function):
        priority = getattr(other, "__pandas_priority__", None)
        if priority is not None and priority > self.__pandas_priority__:
            return NotImplemented
        return Series(function(self.values, np.asarray(other)))

    def __imul__(self, other):
        return self * other

    __rsub__ = lambda self, other: self._binary(other, lambda a, b: b - a)


for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "lt", "ge", "eq"):
    _dunder = f"__{_name}__"
    setattr(Series, _dunder, lambda self, other, name=_dunder: self._binary(other, getattr(operator, name)))


class Sparse:
    """What SciPy's sparse arrays show of themselves."""

    __array_priority__ = 10.1

    def __init__(self, data):
        self.data = np.asarray(data)


class Unit(np.ndarray):
    """A subclass of somebody's own."""


FOREIGN = {
    "MaskedArray": lambda: np.ma.array([1.0, 1.0], mask=[0, 1]),
    "matrix": lambda: np.matrix([[1.0, 2.0]]),
    "recarray": lambda: np.rec.array([(1.0, 2.0)], dtype=[("a", float), ("b", float)]),
    "Series": lambda: Series([1.0, 2.0]),
    "Sparse": lambda: Sparse([1.0, 2.0]),
    "poly1d": lambda: np.poly1d([1.0, 2.0]),
    "Unit": lambda: np.ones(2).view(Unit),
}
PLACES = {
    "x * m": lambda x, m: x * m,
    "m * x": lambda x, m: m * x,
    "x - m": lambda x, m: x - m,
    "x ** m": lambda x, m: x**m,
    "x @ m": lambda x, m: x @ m,
    "x > m": lambda x, m: x > m,
    "x == m": lambda x, m: x == m,
    "x *= m": lambda x, m: operator.imul(x, m),
    "np.multiply(x, m)": np.multiply,
    "np.multiply(m, x)": lambda x, m: np.multiply(m, x),
    "np.dot(m, x)": lambda x, m: np.dot(m, x),
    "np.where": lambda x, m: np.where([True, False], x, m),
    "np.stack": lambda x, m: np.stack([x, m]),
    "np.add.outer": lambda x, m: np.add.outer(m, x),
    "np.inner": lambda x, m: np.inner(x, m),
    "np.searchsorted": lambda x, m: np.searchsorted(m, x),
    "x.clip": lambda x, m: x.clip(m, 3.0),
    "x + [m]": lambda x, m: x + [m, m],
    "x[m]": lambda x, m: x[m],
    "ad.gather": lambda x, m: ad.gather(x, 0, m),
    "ad.softmax": lambda x, m: ad.softmax(m),
    "ad.Tensor": lambda x, m: ad.Tensor(m),
    "ad.Var": lambda x, m: ad.Var(m),
    "ad.Tensor of a list": lambda x, m: ad.Tensor([m, m]),
    "set": lambda x, m: x.set(m),
    "backward": lambda x, m: (x * 2).backward(m),
    "insert": lambda x, m: ad.GradStore().insert(x, m),
    "custom_op": lambda x, m: ad.custom_op(vjps=[lambda g, y, a: g])(lambda a: m)(x),
    "a partial": lambda x, m: ad.custom_op(vjps=[lambda g, y, a: m])(lambda a: a * 2)(x).backward(),
    "a param": lambda x, m: ad.custom_op(vjps=[lambda g, y, a, k: g])(lambda a, k: a)(x, k=m),
    "grad": lambda x, m: ad.grad(lambda a: (a * a).sum())(m),
    "jvp": lambda x, m: ad.jvp(lambda a: a * a, (np.ones(2),), (m,)),
    "jvp at": lambda x, m: ad.jvp(lambda a: a * a, (m,), (np.ones(2),)),
    "gradcheck": lambda x, m: ad.gradcheck(lambda a: (a * a).sum(), m),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", FOREIGN)
def test_02_an_array_that_means_more_than_its_numbers_is_refused_everywhere(kind, place):
    x, m = ad.Var([1.0, 2.0], name="x"), FOREIGN[kind]()
    with pytest.raises(TypeError, match=rf"{kind}\b") as refused:
        PLACES[place](x, m)
    assert isinstance(refused.value, (ad.HistoryLostError, ad.NoRuleError)) or "plain array" in str(refused.value)
    assert x.data.tolist() == [1, 2]


def test_02_the_refusal_names_the_operation_and_what_to_write():
    x, m = ad.Var([1.0, 2.0]), np.ma.array([1.0, 1.0], mask=[0, 1])
    with pytest.raises(TypeError, match=r"^np\.multiply \(\*\) got a np\.ma\.MaskedArray, whose mask .*m\.filled"):
        x * m
    with pytest.raises(TypeError, match=r"np\.dot got a .*Series.*to_numpy"):
        np.dot(Series([1.0]), x)
    with pytest.raises(ad.HistoryLostError, match=r"by np\.ma\.MaskedArray\.__mul__"):
        m * x
    assert (x * np.where(m.mask, 0, 1.0)).sum().item() == 1  # what it says to write


def test_02_what_is_plain_comes_in_and_what_knows_tensors_is_asked(tmp_path):
    x = ad.Var([1.0, 2.0])
    on_disk = np.memmap(tmp_path / "m", float, "w+", shape=2)
    on_disk[:] = [3, 4]
    for same in (on_disk, [3.0, 4.0], (np.float64(3), 4), np.array([3.0, 4.0]).view(), ad.Tensor([3.0, 4.0])):
        y = x * same
        assert type(y.data) is np.ndarray and y.backward()[x].data.tolist() == [3, 4]
        assert type(ad.Tensor(same).data) is np.ndarray

    class Knows:
        __array_ufunc__ = None
        __rmul__ = __rmatmul__ = __mul__ = __lt__ = lambda self, other: "mine"

    assert x * Knows() == x @ Knows() == Knows() * x == "mine" and (x > Knows()) == "mine"
    with pytest.raises(TypeError, match="unsupported operand"):
        x * object()


def test_07_integers_made_of_tracked_values_lose_nothing():
    x = ad.Var([0.5, 1.5])
    n = np.floor(x).astype(int)
    one, row = n[1], np.arange(4.0)
    assert n.tracked and row[n].tolist() == [0, 1]
    assert row[one] == 1 and [5, 6][one] == 6 and list(range(one)) == [0] and int(one) == 1 and float(one) == 1
    assert np.asarray(n).tolist() == [0, 1] and np.take(row, n).tolist() == [0, 1] and np.array([n, n]).shape == (2, 2)
    assert np.arange(one).tolist() == [0] and np.zeros(one).shape == (1,) and row[one:].tolist() == [1, 2, 3]
    assert np.roll(x, one).data.tolist() == [1.5, 0.5] and math.factorial(one) == math.trunc(one) == 1
    assert np.round(ad.Var([1.26]), one).item() == 1.3 and pickle.loads(pickle.dumps(n)).data.tolist() == [0, 1]
    count = np.zeros(3)
    np.add.at(count, n, 1.0)
    count += np.array([0, 0, 1])
    count[one] = one
    count[:2] += n
    np.put(count, n, [7.0, 8.0])
    assert count.tolist() == [7, 8, 1]
    assert (x[n] * x).sum().backward()[x].data.tolist() == [1, 3]  # x0² + x1² by its own index
    assert np.asarray(x > 1).tolist() == [False, True] and row[:2][(x > 1)].tolist() == [1]


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=6))
def test_07_an_index_made_of_values_reads_what_the_plain_index_reads(values):
    x = ad.Var(values)
    key = np.floor(np.abs(x)).astype(int)
    assert np.array_equal(np.arange(10.0)[key], np.arange(10.0)[np.floor(np.abs(values)).astype(int)])


def test_07_writing_to_an_integer_tensor_stays_an_error():
    n = ad.Tensor([1, 2])
    for write in (lambda: np.put(n, 0, 5), lambda: np.add.at(n, 0, 1), lambda: np.copyto(n, 0),
                  lambda: np.add(1, 2, out=n)):  # fmt: skip
        with pytest.raises(TypeError):
            write()
    assert n.data.tolist() == [1, 2]


LOST = {
    "np.asarray": lambda x, s: np.asarray(x),
    "a list": lambda x, s: np.array([s, s]),
    "nested lists": lambda x, s: np.array([[s, s], [s, s]]),
    "float": lambda x, s: float(s),
    "int": lambda x, s: int(s),
    "complex": lambda x, s: complex(s),
    "math": lambda x, s: math.exp(s),
    "math.trunc": lambda x, s: math.trunc(s),
    "%": lambda x, s: "%f".__mod__(s),
    "c[:] = x": lambda x, s: operator.setitem(np.zeros(2), slice(None), x),
    "c[mask] = x": lambda x, s: operator.setitem(np.zeros(2), [True, True], x),
    "integers[0] = s": lambda x, s: operator.setitem(np.zeros(2, int), 0, s),
    "c += x": lambda x, s: operator.iadd(np.zeros(2), x),
    "np.add.at": lambda x, s: np.add.at(np.zeros(2), [0, 1], x),
    "np.add(out=)": lambda x, s: np.add(1.0, x, out=np.zeros(2)),
    "np.full": lambda x, s: np.full(2, s),
    "an index": lambda x, s: [1, 2][s],
    "range": lambda x, s: range(s),
    "ad.Var": lambda x, s: ad.Var(x),
    "ad.Tensor of a list": lambda x, s: ad.Tensor([s, s]),
    "a keyword": lambda x, s: np.var(x, ddof=s),
    "pickle": lambda x, s: pickle.dumps(x * 2),
    "custom": lambda x, s: ad.custom_op(vjps=[lambda g, y, a, k: g])(lambda a, k: a)(x, k=s),
}


@pytest.mark.parametrize("f", LOST.values(), ids=LOST)
def test_13_history_is_lost_by_one_class_of_error_that_says_what_to_use(f):
    with pytest.raises(ad.HistoryLostError, match=r"np\.where|astype|np\.copy|\.data|result"):
        f(ad.Var([1.0, 2.0]), ad.Var(1.0))
    assert issubclass(ad.HistoryLostError, TypeError)


def test_13_the_advice_for_nested_lists_and_for_writing_works():
    a, b, c, d = (ad.Var(v) for v in (1.0, 2.0, 3.0, 4.0))
    with pytest.raises(ad.HistoryLostError, match=r"np\.block"):
        np.array([[a, b], [c, d]])
    assert np.linalg.det(np.block([[a, b], [c, d]])).backward()[a].item() == pytest.approx(4)
    for write in (lambda o: operator.setitem(o, 0, a), lambda o: o.fill(a), lambda o: operator.setitem(o[:1], 0, a)):
        with pytest.raises(ValueError) as numpys:  # NumPy's own, which it raises from ours
            write(np.zeros(3))
        assert isinstance(numpys.value.__cause__, ad.HistoryLostError) and "np.where" in str(numpys.value.__cause__)
    assert np.where(np.arange(3) == 0, a, np.zeros(3)).sum().backward()[a].item() == 1


def test_13_a_constant_has_no_history_to_lose():
    k = ad.Tensor([1.0, 2.0])
    c = np.zeros(2)
    c[:] = k
    c[0] = ad.Tensor(3.0)
    assert np.asarray(k).tolist() == [1, 2] and c.tolist() == [3, 2] and math.exp(ad.Tensor(0.0)) == 1


def reason(store, t):
    with pytest.raises(ad.MissingGradientError) as missing:
        store[t]
    assert isinstance(missing.value, KeyError) and str(missing.value).startswith(f"no gradient for {t.label}")
    assert pickle.loads(pickle.dumps(missing.value)).reason == missing.value.reason
    return missing.value.reason


def test_14_a_var_that_became_a_plain_tensor_is_told_so():
    w = ad.Var(1.0, name="w")
    for _ in range(2):
        try:
            g = (w * w).backward()[w]
        except ad.MissingGradientError as error:
            assert error.reason == "replaced" and ".set" in str(error) and "ad.optim" in str(error)
            break
        with ad.no_grad():
            w -= 0.1 * g
    else:
        pytest.fail("a plain Tensor had a gradient")


@pytest.mark.parametrize("named", [True, False], ids=["root kept", "root gone"])
def test_14_why_is_told_also_when_nobody_kept_the_root(named):
    x, y, z, k = ad.Var(2.0), ad.Var(3.0), ad.Var(5.0), ad.Tensor(4.0)
    silent = ad.custom_op(vjps=[lambda g, y, a, b: g * b, lambda g, y, a, b: None])(lambda a, b: a * b)
    half = ad.custom_op(vjps=[lambda g, y, a, b: g * b, None])(lambda a, b: a * b)
    h, other = x * 2, x * 3
    kept = h.detach()
    stairs = np.floor(z * 2)
    roots = [  # root, tensor, why
        (lambda: 0 * x + 3, x, "pruned"),
        (lambda: 0 * x + 3, y, "foreign"),
        (lambda: x * np.floor(z), z, "pruned"),
        (lambda: x * stairs, stairs, "pruned"),
        (lambda: half(x, z), z, "pruned"),
        (lambda: half(x, z * 2), z, "pruned"),
        (lambda: silent(x, z), z, "not_reached"),
        (lambda: h * h, h, "taken"),
        (lambda: h * h, other, "foreign"),
        (lambda: h * h, z, "foreign"),
        (lambda: y * kept, x, "detached"),
        (lambda: y * (x * 2).detach(), x, "detached"),
        (lambda: y * kept, z, "foreign"),
        (lambda: x * 2, k, "foreign"),
        (lambda: x * 2, ad.Tensor(3), "integer"),
    ]
    for make, tensor, why in roots:
        root = make()
        store = root.backward()
        if not named:
            del root
        assert reason(store, tensor) == why, why
    store = (x * y).backward(wrt=[x])
    assert reason(store, y) == "not_asked" and reason((x * 2).backward(wrt=[y]), y) == "foreign"
    assert reason((x * np.floor(z)).backward(wrt=[x, z]), z) == "pruned"
    store.remove(x)
    assert reason(store, x) == "removed" and reason(ad.GradStore(), x) == "foreign"
    assert reason(silent(x, h).backward(keep=[h]), h) == "not_reached"
    with ad.no_grad():
        root = x * y
    assert reason(root.backward(), x) == "foreign"


@given(st.lists(st.tuples(st.sampled_from(["mul", "floor", "detach", "zero"]), st.integers(0, 9), st.integers(0, 9)),
                min_size=1, max_size=12))  # fmt: skip
def test_14_reasons_agree_with_a_walk_of_the_graph(program):
    """Of any program: a missing Var is pruned, detached or foreign as the paths from the root to it say."""
    leaves = [ad.Var(float(i + 1)) for i in range(3)]
    pool, above = list(leaves), [({i}, set(), set()) for i in range(3)]  # leaves by an open, a pruned, a detached path
    for kind, i, j in program:
        i, j = i % len(pool), j % len(pool)
        (a, b, c), (d, e, f) = above[i], above[j]
        if kind == "mul":
            pool.append(pool[i] * pool[j])
            above.append((a | d, b | e, c | f) if pool[-1].tracked else (set(), set(), set()))
        elif kind == "detach":
            pool.append(pool[i].detach())
            above.append((set(), set(), a | b | c))
        else:
            pool.append(np.floor(pool[i]) if kind == "floor" else 0 * pool[i])
            above.append((set(), a | b, c) if pool[-1].tracked else (set(), set(), set()))
    store, (opened, pruned, detached) = pool[-1].backward(), above[-1]
    for n, leaf in enumerate(leaves):
        if n in opened:
            assert leaf in store
        elif n in pruned:
            assert reason(store, leaf) == "pruned"
        elif pool[-1].tracked and n in detached:
            assert reason(store, leaf) in ("detached", "pruned")
        else:
            assert reason(store, leaf) in ("foreign", "detached")


def test_14_remembering_why_keeps_no_graph_alive_and_little_memory():
    x = y = ad.Var(np.ones(1000))
    for _ in range(300):
        y = np.floor(y * 1.5) * 0.5 + x.detach() + y
    inner = weakref.ref(y.op.inputs[0])
    tracemalloc.start()
    store = y.backward()
    del y
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert inner() is None and held < 400_000  # the graph holds 300 * 5 arrays of 8,000 bytes
    assert x in store


def test_15_names_of_other_libraries_name_ours():
    x = ad.Var([1.0, 2.0], name="x")
    names = [*" ".join(ATTRIBUTES.values()).split(), *NUMPYS.split(), *OURS.split()]
    missing = [name for name in names if name not in dir(x)]
    assert len(missing) > 60 and not hasattr(x, "grad") and not hasattr(ad.Tensor, "numpy")
    for name in missing:
        with pytest.raises(AttributeError, match="Here: "):
            getattr(x, name)
    for name, ours in [("grad", "backward"), ("numpy", r"\.data"), ("zero_grad", "leave it out"), ("exp", r"np\.exp"),
                       ("requires_grad", "Var"), ("relu", r"ad\.relu"), ("view", "reshape")]:  # fmt: skip
        with pytest.raises(AttributeError, match=ours):
            getattr(x, name)
    for name in ("data", "grad", "requires_grad"):
        with pytest.raises(AttributeError, match="Here: "):
            setattr(x, name, 1.0)
    with pytest.raises(AttributeError, match=r"\.set"):
        x.data = x.data - 0.1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        _ = x.nonsense
    from autodiff.scalar import Value

    with pytest.raises(AttributeError, match="Make a new one"):
        Value(3.0).data = 2.0


def test_15_what_the_names_point_to_is_there():
    for name in NUMPYS.split():
        assert callable(getattr(np, name))
    for name in OURS.split():
        assert callable(getattr(ad, name))
    for name in FUNCTIONS:
        with pytest.raises(AttributeError, match=f"{name}.*Here: "):
            getattr(ad, name)
    with pytest.raises(AttributeError, match=r"np\.tanh takes Tensors"):
        _ = ad.tanh
    with pytest.raises(AttributeError, match="no attribute 'nonsense'$"):
        _ = ad.nonsense


@pytest.mark.parametrize("call, ours", [
    (lambda x: ad.grad(np.sum, argnum=0), "argnums="),
    (lambda x: ad.jacobian(np.sum, argnum=0), "argnums="),
    (lambda x: (x * x).backward(retain_graph=True), "leave it out"),
    (lambda x: (x * x).backward(create_graph=True), 'detach="none"'),
    (lambda x: (x * x).backward(gradient=np.ones(2)), "cotangent="),
    (lambda x: ad.Tensor([1.0], requires_grad=True), "a Var is differentiated"),
    (lambda x: x.sum(dim=0), "axis="),
    (lambda x: x.max(dim=0), "axis="),
    (lambda x: x.std(dim=0, keepdim=True), "axis="),
])  # fmt: skip
def test_15_arguments_of_other_libraries_name_ours(call, ours):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '({'|'.join(KEYWORDS)})'.*{ours}"):
        call(ad.Var([1.0, 2.0]))


def softmax(x):
    e = np.exp(np.asarray(x))
    return e / e.sum()


def test_15_functions_of_scipy_of_pytorch_and_of_the_readers_own():
    special, x = pytest.importorskip("scipy.special"), ad.Var([0.2, 0.7])
    for name in ("logsumexp", "softmax", "log_softmax"):
        with pytest.raises(ad.HistoryLostError, match=rf"by scipy\.special\.{name}: .*ad\.{name}\(x, axis=None\)"):
            getattr(special, name)(x)
        ours = eval(OF_SCIPY[name], {"ad": ad, "x": x})
        np.testing.assert_allclose(ours.data, getattr(special, name)(x.data), rtol=1e-14)
    with pytest.raises(ad.HistoryLostError, match=r"ad\.softmax takes Tensors"):
        softmax(x)

    class Torch:  # what PyTorch does with an operand that has its hook
        @staticmethod
        def exp(x):
            return type(x).__torch_function__(Torch.exp, (type(x),), (x,), {})

    with pytest.raises(TypeError, match=r"torch\.exp can't take a Var of autodiff. Here: np\.exp\(x\)"):
        Torch.exp(x)


def test_16_the_message_names_what_the_user_wrote():
    x = ad.Var([1.0, 2.0])
    with pytest.raises(ad.NoRuleError, match=r"np\.poly1d calls np\.trim_zeros, .*np\.polyval evaluates"):
        np.poly1d(x)(2.0)
    with pytest.raises(ad.HistoryLostError, match=r"by np\.vectorize:"):
        np.vectorize(math.exp)(x)
    with pytest.raises(TypeError, match=r"^an operator with a Tensor got a .*Series"):
        Series([1.0, 2.0]) * x
    with pytest.raises(TypeError, match=r"^np\.matmul \(@\) got a .*Sparse"):
        x @ Sparse([[1.0, 2.0]])
    assert np.polyval(x, 2.0).backward()[x].data.tolist() == [2, 1]  # what it says to write


def test_18_candle_gives_each_winner_all_and_halves_between_two():
    x, c = ad.Var([1.0, 3.0, 3.0]), ad.contracts.candle()
    for f, expected in [(np.max, [0, 1, 1]), (lambda x: x.min(), [1, 0, 0]), (np.maximum.reduce, [0, 1, 1]),
                        (lambda x: x[1:].max(keepdims=True), [0, 1, 1]),
                        (lambda x: np.min(np.stack([x, x]), axis=0), [2, 2, 2]),
                        (lambda x: x.max(ties="first"), [0, 1, 0]), (lambda x: np.abs(x - 3), [-1, 1, 1]),
                        (lambda x: ad.relu(x - 3), [0, 1, 1]), (lambda x: np.maximum(x, [0.0, 3.0, 5.0]), [1, 0.5, 0]),
                        (lambda x: np.minimum([0.0, 3.0, 5.0], x), [0, 0.5, 1])]:  # fmt: skip
        c.backward(f(x))
        assert c.grad(x).tolist() == expected
        assert f(x).backward()[x].data.sum() <= sum(expected)  # the engine's own convention is untouched
        root = f(x)
        last = [step.change[1] for step in ad.trace(root, contract=c).steps if step.kind == "accumulate"][-1]
        assert np.array_equal(last.data, expected)
    for other in (ad.contracts.pytorch, ad.contracts.burn):
        d = other()
        d.backward(np.max(x))
        assert d.grad(x).tolist() == [0, 0.5, 0.5]


def test_18_candles_merged_stores_are_cut_and_others_are_not():
    x = ad.Var([1.0, 3.0])
    make = lambda **options: ad.contracts.candle().backward((x * x).sum(), **options)
    for total in (make(), ad.GradStore()):
        total.extend(make())
        total.extend(make())
        assert not total[x].tracked
    assert make()[x].tracked  # by itself a gradient may have a graph there
    whole = make(detach=False)
    whole.extend(make(detach=False))
    assert whole[x].tracked and whole[x].backward()[x].data.tolist() == [4, 4]
