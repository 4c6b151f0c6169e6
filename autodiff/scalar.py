"""The course's first engine: reverse-mode differentiation of single numbers, in pure Python.

Read it top to bottom. `RULES` holds the calculus. A `Value` remembers the operation and the inputs that made it.
`backward` lists each node before its inputs, walks the list once, and sends one share of the gradient along each edge.

>>> x, y = Value(3.0, name="x"), Value(2.0, name="y")
>>> L = (x * y + x) ** 2
>>> L.backward()
>>> L.data, x.grad, y.grad
(81.0, 54.0, 54.0)
"""

import math
import operator
from math import isfinite
from numbers import Real

__all__ = ["RULES", "NonFiniteError", "Value", "sorted_nodes"]

# One line an operation: the forward, then one partial for each input. g: gradient of the result y; a, b: the inputs.
RULES = {
    "add": (operator.add, lambda g, y, a, b: g, lambda g, y, a, b: g),
    "sub": (operator.sub, lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "mul": (operator.mul, lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "div": (operator.truediv, lambda g, y, a, b: g / b, lambda g, y, a, b: -g * (y / b)),
    # math.pow, because ** turns (-8) ** (1/3) into a complex number; a**0 is flat in a, and 0**b is flat in b.
    "pow": (math.pow, lambda g, y, a, b: g * b * math.pow(a, b - 1) if b else 0.0,
            lambda g, y, a, b: g * y * math.log(a) if a else 0.0),
    "neg": (operator.neg, lambda g, y, a: -g),
    "exp": (math.exp, lambda g, y, a: g * y),
    "log": (math.log, lambda g, y, a: g / a),
    "tanh": (math.tanh, lambda g, y, a: g * (1 - y * y)),
    "relu": (lambda a: a if a > 0 else 0.0, lambda g, y, a: g if a > 0 else 0.0),
}


class NonFiniteError(ArithmeticError):
    """A value or a gradient would not be a finite number, and nothing was written."""


class Value:
    """A number that remembers how it was computed.

    data: an int, a float or another real number, kept as a float. Anything else (bool, string, complex, array) is a
    TypeError; NaN and infinity are a NonFiniteError. Operations: + - * / ** with a Value or a plain number (a constant,
    it gets no gradient) on either side, and x.exp(), x.log(), x.tanh(), x.relu(); a result outside the floats is a
    NonFiniteError. Only `.grad` and `.name` can change later, so inputs are always older than results.

    >>> x = Value(-3.0, name="x")
    >>> y = x * x
    >>> y.backward()
    >>> x, y
    (Value(data=-3.0, grad=-6.0, name='x'), Value(data=9.0, grad=1.0, op='mul'))
    """

    __slots__ = ("_data", "_grad", "_inputs", "_numbers", "_op", "name")
    __array_ufunc__ = None  # a NumPy number on the left of an operator leaves the operation to us

    def __init__(self, data, name=None):
        self._data, self._grad, self._op, self._inputs, self.name = _number(data), None, None, (), name

    def _write(self, _): raise AttributeError("a Value stays as it is. Make a new one: x = Value(x.data - x.grad / 10)")
    data = property(operator.attrgetter("_data"), _write, doc="The number. It cannot be changed: make a new Value.")
    grad = property(operator.attrgetter("_grad"), _write, doc="d root / d self, of the last root above it, or None.")
    op = property(operator.attrgetter("_op"), doc="The name of the operation, or None when it was not computed.")
    inputs = property(operator.attrgetter("_inputs"), doc="One entry an operand slot: a Value or a plain number.")

    def __add__(self, other): return _binary("add", self, other)
    def __radd__(self, other): return _binary("add", other, self)
    def __sub__(self, other): return _binary("sub", self, other)
    def __rsub__(self, other): return _binary("sub", other, self)
    def __mul__(self, other): return _binary("mul", self, other)
    def __rmul__(self, other): return _binary("mul", other, self)
    def __truediv__(self, other): return _binary("div", self, other)
    def __rtruediv__(self, other): return _binary("div", other, self)
    def __pow__(self, other): return _binary("pow", self, other)
    def __rpow__(self, other): return _binary("pow", other, self)
    def __neg__(self): return _node("neg", (self,), (self._data,))
    def exp(self): return _node("exp", (self,), (self._data,))
    def log(self): return _node("log", (self,), (self._data,))
    def tanh(self): return _node("tanh", (self,), (self._data,))
    def relu(self): return _node("relu", (self,), (self._data,))

    def backward(self):
        """Set `.grad` to 1 here, and to d self / d node on every node this one was computed from.

        Their earlier gradients are replaced, so a second call gives the same numbers; other nodes keep theirs. If a
        gradient is not finite: NonFiniteError, and no `.grad` has changed.
        Formula: grad(x) = sum of grad(y) * dy/dx over every edge that leads from x into a result y.

        >>> a, b = Value(2.0), Value(5.0)
        >>> (a * b + a).backward()
        >>> a.grad, b.grad
        (6.0, 2.0)
        """
        order = sorted_nodes(self)
        grads = dict.fromkeys(order, 0.0)
        grads[self] = 1.0
        for node in order:
            g = grads[node]
            if not isfinite(g):
                raise _gradient_error(node, [user for user in order if node in user._inputs], g)
            if node._op:
                rule, y, numbers = RULES[node._op], node._data, node._numbers
                try:
                    for slot, x in enumerate(node._inputs, 1):
                        if isinstance(x, Value):
                            grads[x] += rule[slot](g, y, *numbers)
                except (ArithmeticError, ValueError) as error:
                    raise _gradient_error(x, [node], error) from None
        for node, g in grads.items():  # only now, when every gradient is known to be finite
            node._grad = g

    def __repr__(self):
        made = "".join(f", {k}={v!r}" for k, v in (("op", self._op), ("name", self.name)) if v is not None)
        return f"Value(data={self._data!r}, grad={self._grad!r}{made})"


def sorted_nodes(root):
    """Return `root` and everything it was computed from: each node once, and before its inputs.

    A node is listed when all its inputs are, and the list is turned round at the end. The stack is a plain list, so a
    graph may be much deeper than Python's recursion limit.

    >>> x = Value(3.0, name="x")
    >>> [node.name or node.op for node in sorted_nodes((x * x).exp())]
    ['exp', 'mul', 'x']
    """
    order, open_nodes, seen, stack = [], [], set(), [root]
    while stack:
        node = stack.pop()
        if node is None:  # everything above this mark is done: all inputs of the newest open node are listed
            order.append(open_nodes.pop())
        elif node not in seen:
            seen.add(node)
            open_nodes.append(node)
            stack.append(None)
            for x in node._inputs:
                if isinstance(x, Value):
                    stack.append(x)
    order.reverse()
    return order


def _number(data):
    """The plain number `data` as a finite float."""
    if isinstance(data, bool) or not isinstance(data, Real):
        raise TypeError(f"a Value is made from an int or a float, got {data!r:.50} ({type(data).__name__})")
    try:
        number = float(data)
    except OverflowError:
        number = math.inf
    if not isfinite(number):
        raise NonFiniteError(f"a Value holds finite numbers only, got {number}: look where this one was computed")
    return number


def _binary(op, a, b):
    return _node(op, (a, b), (a._data if isinstance(a, Value) else _number(a),
                              b._data if isinstance(b, Value) else _number(b)))


def _node(op, inputs, numbers):
    """A new Value, the result of `op`: the one place where edges are made."""
    try:
        data = RULES[op][0](*numbers)
    except (ArithmeticError, ValueError) as error:
        raise _value_error(op, inputs, numbers, error) from None
    if not isfinite(data):
        raise _value_error(op, inputs, numbers, data)
    node = Value.__new__(Value)
    node._data, node._grad, node._op, node._inputs, node._numbers, node.name = data, None, op, inputs, numbers, None
    return node


def _written(op, inputs, numbers):
    names = [x.name or x._op if isinstance(x, Value) else None for x in inputs]
    return f"{op}({', '.join([f'{names[i]}={n}' if names[i] else str(n) for i, n in enumerate(numbers)])})"


def _value_error(op, inputs, numbers, problem):
    return NonFiniteError(f"{_written(op, inputs, numbers)} has no finite value ({problem}): nothing was made. "
                          f"Keep the inputs where {op} is defined and its result fits into a float")


def _gradient_error(node, users, problem):
    used_in = ", ".join([_written(user._op, user._inputs, user._numbers) for user in users])
    return NonFiniteError(f"the gradient of {node.name or node._op or node._data}, used in {used_in}, is not finite "
                          f"({problem}): no .grad was changed. Move the inputs away from this point; an exponent that "
                          "is constant should be a plain number")
