"""What a learner's function made with the engine: its value, and the gradients it sends to Vars, by their names.

>>> import autodiff as ad
>>> x = ad.Var(6.0, name="x")
>>> reading((x - x / 2) ** 2)
(array(9.), {'x': array(3.)})
>>> reading((x - x.data / 2) ** 2)[1], reading(x.detach() * 2)
({'x': array(6.)}, (array(12.), {}))
"""


class Named:
    """A function that shows as `text` where a call with it is told."""

    def __init__(self, text: str, function):
        self.text, self.function = text, function

    def __call__(self, *args):
        return self.function(*args)

    def __repr__(self):
        return self.text


Named.__name__ = Named.__qualname__ = "function"  # in error messages, it is what it stands for


def is_tensor(value) -> bool:
    return hasattr(value, "is_variable") and hasattr(value, "tracked")


def reading(made):
    """(value, {name of a Var: its gradient}) of what was made; no gradients where there is no history.

    None for what is no tensor, array or number. Vars without a name are left out.
    """
    import numpy as np

    from autodiff.course.forms import as_array

    if not is_tensor(made):
        value = as_array(made)
        return None if value is None else (value, {})
    if made.dtype.kind != "f" or not made.tracked:
        return np.array(made.data, float), {}
    import autodiff as ad

    with np.errstate(all="ignore"):
        grads = made.backward()
    found = [n for n in ad.sorted_nodes(made) if n.is_variable and n.name is not None]
    return np.array(made.data, float), {n.name: np.array(grads[n].data, float) for n in found if n in grads}
