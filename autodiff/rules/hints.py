"""What to use instead of a function of NumPy's or SciPy's that has no rule."""

import sys

import numpy as np

from .rule import COMPOSED, RULES, VALUES

WRITE = ("put", "place", "putmask", "put_along_axis", "fill_diagonal", "copyto")  # these write to their first argument
INSTEAD = {
    "values never change: build the result with np.where, np.concatenate or ad.scatter": " ".join(WRITE[:-1]),
    "values never change: np.broadcast_to fills a shape with one value, np.where chooses entries": "copyto",
    "complex numbers are out of scope; np.convolve does convolutions": "fft",
    "complex numbers are out of scope; np.linalg.eigh takes symmetric matrices": "eig eigvals",
    "complex numbers are out of scope; np.sort sorts real numbers": "sort_complex",
    "complex numbers are out of scope; np.polyval evaluates polynomials": "roots",
    "np.polyval evaluates polynomials": "poly1d",
    "np.flatnonzero finds what to keep": "trim_zeros",
    "np.bincount adds up weights, np.searchsorted finds bins": "histogram histogram2d histogramdd histogram_bin_edges",
    "np.unique finds the values": "unique_all unique_counts unique_inverse unique_values",
}
BY_NAME = {name: advice for advice, names in INSTEAD.items() for name in names.split()}
OF_SCIPY = {  # name in scipy.special -> the same by functions that have rules
    "erf": "ad.erf(x)",
    "erfc": "1 - ad.erf(x)",
    "expit": "ad.sigmoid(x)",
    "log_expit": "-ad.softplus(-x)",
    "logit": "np.log(x) - np.log1p(-x)",
    "ndtr": "(1 + ad.erf(x / 2**0.5)) / 2",
    "xlogy": "x * np.log(y)",
    "xlog1py": "x * np.log1p(y)",
    "softmax": "ad.softmax(x, axis=None)",
    "log_softmax": "ad.log_softmax(x, axis=None)",
    "logsumexp": "ad.logsumexp(x, axis=None)",
    "entr": "-x * np.log(x)",
    "rel_entr": "x * np.log(x / y)",
    "exp10": "10.0 ** x",
    "cosm1": "-2 * np.sin(x / 2) ** 2",
    "powm1": "np.expm1(y * np.log(x))",
    "boxcox": "np.expm1(y * np.log(x)) / y",
}


def name_of(function) -> str:
    """The public name of a function: NumPy's, a ufunc of SciPy's, or what else a ufunc is called."""
    if isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function:
        return f"scipy.special.{function.__name__}" if _is_scipys(function) else function.__name__
    if isinstance(getattr(function, "__self__", None), np.ufunc):  # a method of one, as np.add.reduce is
        return f"{name_of(function.__self__)}.{function.__name__}"
    module = getattr(function, "__module__", None) or "numpy"
    module = module.replace("numpy", "np").replace("lib._scimath_impl", "emath").replace("lib.scimath", "emath")
    module = module.removesuffix("._core").split("._")[0]
    return f"{module}.{function.__name__}"


def _is_scipys(ufunc) -> bool:
    return getattr(sys.modules.get("scipy.special"), ufunc.__name__, None) is ufunc


def same_as(name: str) -> str | None:
    """What has rules and gives the same as this function of SciPy's, which is given by its name."""
    short = name.rpartition(".")[2]
    if not name.startswith("scipy."):
        return None
    same = OF_SCIPY.get(short) or hasattr(np, short) and f"np.{short}(x)"
    return f"{same} is the same" if same else "SciPy's functions have no rules here"


def instead_of(function, caller: str | None = None) -> str:
    """The advice for this function, or a name among the functions that have rules that is much like it.

    `caller`: the name of the library function that called it, whose advice comes first.
    """
    name = name_of(function)
    known = caller and (BY_NAME.get(caller.removeprefix("np.")) or same_as(caller))
    if known:
        return known
    if name.startswith("scipy."):
        return same_as(name)
    advice = BY_NAME.get("fft" if name.startswith("np.fft.") else function.__name__)
    if advice is not None and name.startswith("np."):
        return advice
    import difflib  # here, for it is slow to import

    here = (*RULES, *COMPOSED, *VALUES)
    numpys = [f for f in here if isinstance(f, np.ufunc) or (f.__module__ or "").startswith("numpy")]
    known = {f.__name__: f for f in numpys}
    near = difflib.get_close_matches(function.__name__, known, n=1, cutoff=0.7)
    return f"the nearest supported function is {name_of(known[near[0]])}" if near else "no supported one is like it"
