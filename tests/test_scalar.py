"""autodiff.scalar: what it computes, what it keeps between calls, and what it refuses."""

import ast
import gc
import inspect
import math
import operator
import statistics
import subprocess
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from autodiff import scalar
from autodiff.scalar import RULES, NonFiniteError, Value, sorted_nodes



def test_the_scalar_engine_is_there_without_an_import_of_its_own():
    code = "import sys, autodiff as ad; early = 'autodiff.scalar' in sys.modules; print(early, ad.scalar.Value(2.0))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("False Value(") and "scalar" in dir(sys.modules["autodiff"])


# Every operation with the closed form of each partial derivative, written without the engine's rules.
UNARY = {
    "neg": (operator.neg, lambda a: -1.0),
    "exp": (Value.exp, math.exp),
    "log": (Value.log, lambda a: 1 / a),
    "tanh": (Value.tanh, lambda a: 1 / math.cosh(a) ** 2),
    "relu": (Value.relu, lambda a: float(a > 0)),
}
BINARY = {
    "add": (operator.add, lambda a, b: (1.0, 1.0)),
    "sub": (operator.sub, lambda a, b: (1.0, -1.0)),
    "mul": (operator.mul, lambda a, b: (b, a)),
    "div": (operator.truediv, lambda a, b: (1 / b, -a / b**2)),
    "pow": (operator.pow, lambda a, b: (b * a ** (b - 1), a**b * math.log(a))),
}
patient = settings(deadline=None)  # a busy machine is no failure
moderate = st.floats(-3, 3).filter(lambda v: abs(v) > 1e-3)
positive = st.floats(0.05, 3)


def central_difference(f, point, slot, step=1e-5):
    up, down = list(point), list(point)
    up[slot] += step
    down[slot] -= step
    return (f(*up) - f(*down)) / (2 * step)


def gradients(f, *point):
    inputs = [Value(p) for p in point]
    f(*inputs).backward()
    return [x.grad for x in inputs]


def close(a, b, rel=1e-6, floor=1e-6):
    return math.isclose(a, b, rel_tol=rel, abs_tol=floor)


# Derivatives


def test_every_rule_is_in_these_tests():
    assert set(UNARY) | set(BINARY) == set(RULES)


@pytest.mark.parametrize("name", UNARY)
@patient
@given(data=st.data())
def test_unary_derivative(name, data):
    f, partial = UNARY[name]
    a = data.draw(positive if name == "log" else moderate)
    [got] = gradients(f, a)
    assert math.isclose(got, partial(a), rel_tol=1e-9, abs_tol=1e-12)
    assert close(got, central_difference(lambda a: f(Value(a)).data, [a], 0))


@pytest.mark.parametrize("name", BINARY)
@patient
@given(data=st.data())
def test_binary_derivative(name, data):
    f, partials = BINARY[name]
    a = data.draw(positive if name == "pow" else moderate)
    b = data.draw(moderate.filter(lambda v: name != "div" or abs(v) > 0.1))
    assume(name != "pow" or a**b < 1e3)
    got = gradients(f, a, b)
    for slot in range(2):
        assert math.isclose(got[slot], partials(a, b)[slot], rel_tol=1e-9, abs_tol=1e-12)
        numeric = central_difference(lambda a, b: f(Value(a), Value(b)).data, [a, b], slot)
        assert close(got[slot], numeric, rel=1e-4, floor=1e-4)


@pytest.mark.parametrize("name", BINARY)
@patient
@given(a=positive, b=positive)
def test_a_plain_number_on_either_side_is_a_constant(name, a, b):
    f, _ = BINARY[name]
    both = gradients(f, a, b)
    left, right = Value(a), Value(b)
    assert f(left, b).data == f(a, right).data == f(Value(a), Value(b)).data
    f(left, b).backward()
    f(a, right).backward()
    assert [left.grad, right.grad] == both
    assert f(left, b).inputs == (left, b)


@st.composite
def expressions(draw):
    """A recipe: steps (operation, slot, slot) that grow a list of values; slots repeat, so nodes are shared."""
    inputs = draw(st.integers(1, 3))
    steps = []
    for length in range(inputs, inputs + draw(st.integers(1, 8))):
        names = st.sampled_from(["add", "sub", "mul", "tanh", "neg"])
        steps.append((draw(names), draw(st.integers(0, length - 1)), draw(st.integers(0, length - 1))))
    return inputs, steps


def run(recipe, values):
    values = list(values)
    for name, a, b in recipe[1]:
        f = (BINARY.get(name) or UNARY[name])[0]
        values.append(f(values[a], values[b]) if name in BINARY else f(values[a]))
    return values


@patient
@given(expressions(), st.lists(st.floats(-1, 1), min_size=3, max_size=3))
@example((1, [("mul", 0, 0)]), [-3.0, 0.0, 0.0])
def test_shared_nodes_agree_with_central_differences(recipe, point):
    point = point[: recipe[0]]
    values = run(recipe, [Value(p) for p in point])
    assume(abs(values[-1].data) < 1e3)
    values[-1].backward()
    for slot, x in enumerate(values[: recipe[0]]):
        numeric = central_difference(lambda *p: run(recipe, [Value(v) for v in p])[-1].data, point, slot)
        reached = x in sorted_nodes(values[-1])
        assert close(x.grad if reached else 0.0, numeric, rel=1e-4, floor=1e-4)
        assert reached or x.grad is None


@patient
@given(expressions())
def test_nodes_once_and_before_their_inputs(recipe):
    root = run(recipe, [Value(0.5) for _ in range(recipe[0])])[-1]
    order = sorted_nodes(root)
    place = {node: i for i, node in enumerate(order)}
    assert order[0] is root and len(place) == len(order)
    assert all(place[node] < place[x] for node in order for x in node.inputs)


# Known numbers


def test_the_shared_node():
    x, y = Value(3.0), Value(2.0)
    u = x * y + x
    L = u**2
    for _ in range(2):
        L.backward()
        assert (u.data, L.data) == (9, 81)
        assert (L.grad, u.grad, x.grad, y.grad) == (1, 18, 54, 54)


def test_the_shared_node_with_a_product():
    x, y = Value(3.0), Value(2.0)
    u = x * y + x
    (u * u).backward()
    assert (u.grad, x.grad, y.grad) == (18, 54, 54)


def test_two_edges_between_the_same_nodes():
    x = Value(-3.0)
    y = x * x
    y.backward()
    assert x.grad == -6 and y.inputs == (x, x)


def test_by_hand_with_two_paths():
    x, y = Value(2.0), Value(3.0)
    a = x * y
    b = a + x
    L = b * b + a
    L.backward()
    assert (L.data, b.grad, a.grad, x.grad, y.grad) == (70, 16, 17, 67, 34)


def test_a_result_used_again():
    x = Value(2.0)
    y = 3 * x
    L = y + y * y
    L.backward()
    assert (y.grad, x.grad) == (13, 39)


def test_sixty_doublings():
    x = a = Value(1.0)
    for _ in range(60):
        a = a + a
    a.backward()
    assert len(sorted_nodes(a)) == 61
    assert a.data == x.grad == 2**60


@pytest.mark.parametrize("a, expected", [(-1.0, 0.0), (-0.0, 0.0), (0.0, 0.0), (2.0, 1.0)])
def test_relu_is_flat_at_zero(a, expected):
    assert gradients(Value.relu, a) == [expected]
    assert Value(a).relu().data == max(a, 0.0)


@pytest.mark.parametrize("a, b, value, slope", [
    (0.0, 0, 1.0, 0.0), (2.0, 0, 1.0, 0.0), (0.0, 1, 0.0, 1.0), (0.0, 2, 0.0, 0.0), (-3.0, 3, -27.0, 27.0),
    (-2.0, -1, -0.5, -0.25), (4.0, 0.5, 2.0, 0.25),
])
def test_powers_with_a_number(a, b, value, slope):
    x = Value(a)
    y = x**b
    y.backward()
    assert (y.data, x.grad) == (value, slope)


@pytest.mark.parametrize("b", [0.0, 0.5, 2.0])
def test_zero_to_a_power_is_flat_in_the_exponent(b):
    x = Value(b)
    (0.0**x).backward()
    assert x.grad == 0


def test_sum_of_a_list():
    xs = [Value(float(i)) for i in range(4)]
    total = sum(xs)
    total.backward()
    assert total.data == 6 and [x.grad for x in xs] == [1] * 4


# What is kept: the `reset` column of the life-cycle contracts


def test_every_reachable_node_gets_a_gradient():
    x, y = Value(3.0), Value(2.0)
    u = x * y + x
    L = u * u
    assert all(node.grad is None for node in sorted_nodes(L))
    L.backward()
    assert [node.grad for node in sorted_nodes(L)].count(None) == 0
    assert u.grad == 18


def test_second_backward_gives_the_same_numbers():
    x, y = Value(3.0), Value(2.0)
    L = (x * y + x) ** 2
    L.backward()
    first = [node.grad for node in sorted_nodes(L)]
    L.backward()
    assert [node.grad for node in sorted_nodes(L)] == first and x.grad == y.grad == 54


def test_rebuilt_forward_gives_the_same_numbers():
    x, y = Value(3.0), Value(2.0)
    for _ in range(2):
        ((x * y + x) ** 2).backward()
        assert (x.grad, y.grad) == (54, 54)


def test_nodes_outside_the_new_root_keep_their_numbers():
    x, y = Value(3.0), Value(2.0)
    u = x * y
    u.backward()
    (x * 5).backward()
    assert (x.grad, y.grad, u.grad) == (5, 3, 1)


def test_a_root_without_history_has_gradient_one():
    x = Value(3.0)
    x.backward()
    assert x.grad == 1


def test_backward_from_the_middle():
    x = Value(3.0)
    u = x * x
    L = u * 2
    L.backward()
    u.backward()
    assert (L.grad, u.grad, x.grad) == (1, 1, 6)


# What is refused


@pytest.mark.parametrize("bad", [True, "3", b"3", 1j, None, [1.0], (1.0,)], ids=repr)
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match=type(bad).__name__):
        Value(bad)
    for f, _ in BINARY.values():
        for pair in ((Value(2.0), bad), (bad, Value(2.0))):
            with pytest.raises(TypeError, match=type(bad).__name__):
                f(*pair)


def test_other_real_numbers_are_kept_as_floats():
    assert [type(Value(v).data) for v in (3, 3.0, Fraction(3, 4))] == [float] * 3
    assert (Fraction(1, 2) * Value(3)).data == 1.5


def test_numpy_numbers_are_numbers_and_arrays_are_not():
    np = pytest.importorskip("numpy")
    x = Value(3.0)
    for two in (np.float64(2), np.float32(2), np.int64(2)):
        assert type(two * x) is type(x * two) is Value and (two * x).data == 6
    for bad in (np.ones(2), np.True_):
        with pytest.raises(TypeError, match=type(bad).__name__):
            bad * x


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 10**400])
def test_numbers_that_are_not_finite_are_refused(bad):
    with pytest.raises(NonFiniteError, match="finite"):
        Value(bad)
    with pytest.raises(NonFiniteError, match="finite"):
        Value(1.0) + bad


@pytest.mark.parametrize("make, message", [
    (lambda x, zero: x / zero, r"div\(x=3.0, zero=0.0\)"),
    (lambda x, zero: x / 0, r"div\(x=3.0, 0.0\)"),
    (lambda x, zero: 1 / zero, r"div\(1.0, zero=0.0\)"),
    (lambda x, zero: zero**-1, r"pow\(zero=0.0, -1.0\)"),
    (lambda x, zero: (-x) ** 0.5, r"pow\(neg=-3.0, 0.5\)"),
    (lambda x, zero: zero.log(), r"log\(zero=0.0\)"),
    (lambda x, zero: (-x).log(), r"log\(neg=-3.0\)"),
    (lambda x, zero: (x * 1000).exp(), r"exp\(mul=3000.0\)"),
    (lambda x, zero: x * 1e308, r"mul\(x=3.0, 1e\+308\)"),
    (lambda x, zero: Value(1e308) + 1e308, r"add\(1e\+308, 1e\+308\)"),
    (lambda x, zero: (x * 1e3) ** 1000, r"pow\(mul=3000.0, 1000.0\)"),
])
def test_a_value_that_is_not_finite_is_refused(make, message):
    with pytest.raises(NonFiniteError, match=message + ".*nothing was made"):
        make(Value(3.0, name="x"), Value(0.0, name="zero"))


def test_errors_are_arithmetic_errors():
    assert issubclass(NonFiniteError, ArithmeticError)


def infinite_slope(x):
    return (x * 0.0) ** 0.5


def overflowing_share(x):
    return (1e-200 / (x * 1e-200)) * 1e200


def no_slope_in_the_exponent(x):
    return (-x) ** Value(2.0, name="k")


def overflowing_sum(x):
    y = x * 1e-300
    return y * 1e308 + y * 1e308


@pytest.mark.parametrize("f", [infinite_slope, overflowing_share, no_slope_in_the_exponent, overflowing_sum])
def test_a_refused_gradient_changes_nothing(f):
    x = Value(1.0, name="x")
    root = f(x)
    inner = root.inputs[0]
    (inner * 0.5).backward()
    before = [node.grad for node in sorted_nodes(root)]
    with pytest.raises(NonFiniteError, match="gradient of .*no .grad was changed"):
        root.backward()
    assert [node.grad for node in sorted_nodes(root)] == before
    assert 0.5 in before


@patient
@given(expressions(), st.lists(st.floats(-1e200, 1e200), min_size=3, max_size=3), st.floats(-1e200, 1e200))
def test_never_half_updated(recipe, point, scale):
    """Whatever happens, either every reachable node has a new finite gradient or none has changed."""
    inputs = [Value(p) for p in point[: recipe[0]]]
    try:
        root = run(recipe, [x * scale for x in inputs])[-1] * 1e100
    except NonFiniteError:
        return
    nodes = sorted_nodes(root)
    before = [node.grad for node in nodes]
    try:
        root.backward()
    except NonFiniteError:
        assert [node.grad for node in nodes] == before
    else:
        assert all(math.isfinite(node.grad) for node in nodes)


def test_the_error_names_the_node_and_its_users():
    zero = Value(0.0, name="zero")
    with pytest.raises(NonFiniteError, match=r"gradient of zero, used in pow\(zero=0.0, 0.5\)"):
        (zero**0.5).backward()


@pytest.mark.parametrize("attribute", ["data", "grad", "op", "inputs"])
def test_a_value_cannot_be_changed(attribute):
    x = Value(1.0)
    with pytest.raises(AttributeError):
        setattr(x, attribute, 2.0)
    with pytest.raises(AttributeError):
        x.gradient = 0.0


# Size and speed


def chain(length):
    x = y = Value(1.0)
    for _ in range(length):
        y = y + 0.5
    return x, y


deep = pytest.mark.parametrize("length", [100_000, pytest.param(1_000_000, marks=pytest.mark.thorough)])


@deep
def test_a_deep_graph(length):
    """Built, differentiated and freed; a recursive step anywhere would stop at a depth of about a thousand."""
    start = time.perf_counter()
    x, y = chain(length)
    y.backward()
    assert x.grad == 1.0
    freed = time.perf_counter()
    del y
    end = time.perf_counter()
    assert end - freed < 5 and end - start < 60


@deep
def test_a_deep_graph_with_shared_nodes(length):
    x = y = Value(1e-9)
    for _ in range(length // 2):
        y = (y + y) * 0.5
    y.backward()
    assert x.grad == 1.0


def test_no_reference_cycles():
    x = Value(3.0)
    gc.collect()
    gc.disable()
    try:
        L = (x * x + 1).exp().log() / 2
        L.backward()
        before = sum(isinstance(o, Value) for o in gc.get_objects())
        del L
        assert sum(isinstance(o, Value) for o in gc.get_objects()) == before - 5
    finally:
        gc.enable()


def test_as_fast_as_micrograd():
    engine = pytest.importorskip("micrograd.engine", reason="micrograd is not installed: pip install micrograd")

    def run(make):
        x = a = make(1.0)
        for _ in range(60):
            a = a + a
        a.backward()
        assert x.grad == 2**60

    def batch(make):
        start = time.perf_counter()
        for _ in range(100):
            run(make)
        return time.perf_counter() - start

    ratio = statistics.median([batch(Value) / batch(engine.Value) for _ in range(25)])
    assert ratio <= 1, f"60 doublings took {ratio:.2f} times as long as with micrograd"


# The module itself


def test_pure_python_without_numpy():
    imported = {
        name.name.split(".")[0]
        for node in ast.walk(ast.parse(inspect.getsource(scalar))) if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module)])
    }
    assert imported <= {"math", "numbers", "operator"}
    code = f"import runpy, sys; runpy.run_path({scalar.__file__!r}); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_short_enough_to_read_at_once():
    assert len(inspect.getsource(scalar).splitlines()) <= 190


def test_printing():
    x = Value(2, name="x")
    assert repr(x) == "Value(data=2.0, grad=None, name='x')"
    assert repr(x * 3) == "Value(data=6.0, grad=None, op='mul')"
    assert f"{x}" == str(x) == repr(x)
