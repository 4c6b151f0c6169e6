"""What NumPy has no name for: activations, convolutions, pools, upsampling, and reads and writes by index arrays.

The names and the order of the arguments are PyTorch's, so that a call reads the same in both; the keywords `axis` and
`keepdims` are NumPy's. As with NumPy's own functions, a Tensor or Var among the operands gives a Tensor, recorded when
one of them is tracked, and arrays, sequences and numbers alone give an array. Floating dtypes are kept, mixed ones
promoted as NumPy promotes them. Index arguments are arrays, sequences or Tensors of integers, and negative ones count
from the end as in NumPy. The forwards and rules are in `rules/nn.py`; here arguments are checked and completed.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from .graph import Node
from .outside import plain
from .recording import as_operand, value_of
from .rules import astype, nn

__all__ = ["avg_pool2d", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "elu", "erf", "gather", "gelu",
           "index_add", "index_select", "log_softmax", "logsumexp", "max_pool2d", "narrow", "relu", "scatter",
           "scatter_add", "sigmoid", "silu", "slice_scatter", "softmax", "softplus", "upsample_bilinear2d",
           "upsample_nearest1d", "upsample_nearest2d"]  # fmt: skip


# Activations


def relu(x):
    """The rectifier, elementwise: max(x, 0).

    `x`: any shape, real dtype; the result has both. TypeError for complex numbers and text. The derivative at 0 is 0,
    as in PyTorch; every number in [0, 1] is a subgradient there.

    >>> import autodiff as ad
    >>> ad.relu(ad.Var([-1.0, 0.0, 2.0])).sum()
    Tensor(2., op=sum)
    """
    return nn.relu(_operand("relu", x))


def elu(x, alpha=1.0):
    """The exponential linear unit, elementwise: x where x > 0, alpha·(exp(x) - 1) elsewhere.

    `x`: any shape; floating dtypes are kept, others become float64. `alpha`: a number. TypeError for complex numbers.
    The derivative at 0 is alpha, as in PyTorch. D.-A. Clevert et al., arXiv:1511.07289.

    >>> import autodiff as ad
    >>> ad.elu([-1000.0, 0.0, 1000.0])
    array([  -1.,    0., 1000.])
    """
    return nn.elu(_floating("elu", x), alpha=float(alpha))


def gelu(x, approximate="none"):
    """The Gaussian error linear unit, elementwise: x·Φ(x), where Φ is the normal distribution function.

    `x`: any shape; floating dtypes are kept, others become float64. `approximate`: "none", or "tanh" for
    ½x·(1 + tanh(√(2/π)·(x + 0.044715x³))); ValueError for anything else. D. Hendrycks and K. Gimpel, arXiv:1606.08415.

    >>> import autodiff as ad
    >>> ad.gelu([-1.0, 0.0, 1.0]).round(4), ad.gelu(1.0, approximate="tanh").round(4)
    (array([-0.1587,  0.    ,  0.8413]), np.float64(0.8412))
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate={approximate!r}: expected 'none' or 'tanh'")
    return nn.gelu(_floating("gelu", x), approximate=approximate)


def silu(x):
    """The sigmoid linear unit, also called swish, elementwise: x·sigmoid(x).

    `x`: any shape; floating dtypes are kept, others become float64. TypeError for complex numbers and text.

    >>> import autodiff as ad
    >>> ad.silu(ad.Var(0.0)).item()
    0.0
    """
    return nn.silu(_floating("silu", x))


def sigmoid(x):
    """The logistic function, elementwise: 1/(1 + exp(-x)).

    `x`: any shape; floating dtypes are kept, others become float64. TypeError for complex numbers and text. Nothing
    overflows, and the small values and slopes at both ends keep their digits.

    >>> import autodiff as ad
    >>> ad.sigmoid([-1000.0, 0.0, 1000.0])
    array([0. , 0.5, 1. ])
    """
    return nn.sigmoid(_floating("sigmoid", x))


def softplus(x, beta=1.0):
    """A smooth rectifier, elementwise: log(1 + exp(beta·x))/beta.

    `x`: any shape; floating dtypes are kept, others become float64. `beta`: a number other than 0, else ValueError.
    Nothing overflows, so there is no threshold beyond which the formula is another, as PyTorch has.

    >>> import autodiff as ad
    >>> ad.softplus([-1000.0, 0.0, 1000.0])
    array([0.00000000e+00, 6.93147181e-01, 1.00000000e+03])
    """
    beta = float(beta)
    if not beta:
        raise ValueError("softplus: beta=0, and log(1 + exp(beta*x))/beta divides by it; pass another number")
    x = _floating("softplus", x)
    return nn.softplus(x) if beta == 1 else nn.softplus(x * beta) / beta


def erf(x):
    """The error function, elementwise: 2/√π·∫exp(-t²)dt from 0 to x.

    `x`: any shape; floating dtypes are kept, others become float64. TypeError for complex numbers and text. Computed
    in double precision, to a few units in its last place.

    >>> import autodiff as ad
    >>> ad.erf([0.0, 0.5, 10.0])
    array([0.        , 0.52049988, 1.        ])
    """
    return nn.erf(_floating("erf", x))


# Exponentials over an axis


def softmax(x, axis=-1):
    """Exponentials that sum to 1 over an axis: exp(x)/Σexp(x).

    `x`: any shape; floating dtypes are kept, others become float64. `axis`: an integer or a tuple of them; None means
    all axes. AxisError when out of range. The maximum is subtracted first, so nothing overflows.

    >>> import autodiff as ad
    >>> ad.softmax([[1000.0, 1000.0], [0.0, -1000.0]], axis=1)
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    x = _floating("softmax", x)
    return nn.softmax(x, axis=_axes("softmax", x, axis))


def log_softmax(x, axis=-1):
    """The logarithm of softmax: x - log Σexp(x) over an axis.

    `x`: any shape; floating dtypes are kept, others become float64. `axis`: an integer or a tuple of them; None means
    all axes. AxisError when out of range. Small values keep their digits: [0, -40] gives -4e-18 and -40.

    >>> import autodiff as ad
    >>> ad.log_softmax([0.0, -40.0])
    array([-4.24835426e-18, -4.00000000e+01])
    """
    x = _floating("log_softmax", x)
    return nn.log_softmax(x, axis=_axes("log_softmax", x, axis))


def logsumexp(x, axis=None, keepdims=False):
    """The logarithm of summed exponentials: log Σexp(x) over an axis.

    `x`: any shape; floating dtypes are kept, others become float64. `axis`: an integer or a tuple of them; None means
    all axes. `keepdims`: keep the reduced axes with length 1. AxisError when out of range. Where every entry is -inf,
    or there is none, the result is -inf and the gradient 0.

    >>> import autodiff as ad
    >>> ad.logsumexp([1000.0, 1000.0])
    np.float64(1000.6931471805599)
    """
    x = _floating("logsumexp", x)
    return nn.logsumexp(x, axis=_axes("logsumexp", x, axis), keepdims=bool(keepdims))


# Convolutions


def conv1d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution, in the sense of neural networks a cross-correlation, over one spatial axis.

    `x`: (N, C, L), or (C, L) without a batch. `w`: (O, C/groups, K). `b`: (O,) or None. The result is
    (N, O, (L + 2·padding - dilation·(K-1) - 1)//stride + 1), in the promoted dtype. `stride`, `padding`, `dilation`:
    an integer; `padding` may also be "valid" or, with stride 1, "same". ValueError when shapes do not fit.
    y[n,o,l] = b[o] + Σ x[n, c, stride·l + dilation·k - padding]·w[o,c,k].

    >>> import autodiff as ad
    >>> ad.conv1d([[[1.0, 2.0, 4.0, 8.0]]], [[[-1.0, 1.0]]])
    array([[[1., 2., 4.]]])
    """
    return _convolve("conv1d", nn.conv1d, 1, x, w, b, stride, padding, dilation, groups)


def conv2d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution, in the sense of neural networks a cross-correlation, over two spatial axes.

    `x`: (N, C, H, W), or (C, H, W) without a batch. `w`: (O, C/groups, KH, KW). `b`: (O,) or None. The result is
    (N, O, H', W') with H' = (H + 2·padding - dilation·(KH-1) - 1)//stride + 1, in the promoted dtype. `stride`,
    `padding`, `dilation`: an integer, or two; `padding` may also be "valid" or, with stride 1, "same". `groups`: that
    many convolutions side by side, each on its share of the channels. ValueError when shapes do not fit.

    >>> import numpy as np, autodiff as ad
    >>> ad.conv2d(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)), b=[0.5])
    array([[[[4.5, 4.5],
             [4.5, 4.5]]]])
    """
    return _convolve("conv2d", nn.conv2d, 2, x, w, b, stride, padding, dilation, groups)


def conv_transpose1d(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv1d as a linear map: each entry of x adds a multiple of the kernel to the result.

    `x`: (N, C, L), or (C, L) without a batch. `w`: (C, O/groups, K). `b`: (O,) or None. The result is
    (N, O, (L-1)·stride - 2·padding + dilation·(K-1) + 1 + output_padding), in the promoted dtype. `output_padding`:
    less than stride or dilation; it tells apart the input lengths that a strided convolution takes to the same length.
    The order of the arguments is PyTorch's. ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.conv_transpose1d([[[1.0, 2.0]]], [[[1.0, 1.0, 1.0]]], stride=2)
    array([[[1., 1., 3., 2., 2.]]])
    """
    return _convolve_transpose("conv_transpose1d", nn.conv_transpose1d, 1, x, w, b, stride, padding, output_padding,
                               groups, dilation)  # fmt: skip


def conv_transpose2d(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv2d as a linear map: each entry of x adds a multiple of the kernel to the result.

    `x`: (N, C, H, W), or (C, H, W) without a batch. `w`: (C, O/groups, KH, KW). `b`: (O,) or None. The result is
    (N, O, H', W') with H' = (H-1)·stride - 2·padding + dilation·(KH-1) + 1 + output_padding, in the promoted dtype.
    `stride`, `padding`, `output_padding`, `dilation`: an integer, or two; output_padding is less than stride or
    dilation. The order of the arguments is PyTorch's. ValueError when shapes do not fit.

    >>> import numpy as np, autodiff as ad
    >>> ad.conv_transpose2d(np.ones((1, 1, 1, 2)), np.ones((1, 1, 2, 2)))
    array([[[[1., 2., 1.],
             [1., 2., 1.]]]])
    """
    return _convolve_transpose("conv_transpose2d", nn.conv_transpose2d, 2, x, w, b, stride, padding, output_padding,
                               groups, dilation)  # fmt: skip


def _convolve(name, primitive, n, x, w, b, stride, padding, dilation, groups):
    x, w, b, single, groups = _convolution_operands(name, n, x, w, b, groups, out=0, into=1)
    stride, dilation = _per_axis(name, "stride", stride, n, 1), _per_axis(name, "dilation", dilation, n, 1)
    kernel, lengths = w.shape[2:], x.shape[2:]
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(f"{name}: padding={padding!r}: expected 'same', 'valid', an integer or {n} of them")
        if padding == "same" and stride != (1,) * n:
            raise ValueError(f"{name}: padding='same' needs stride 1, got stride={stride}; give the padding in numbers")
        total = tuple(d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation))
        before = tuple(t // 2 for t in total)
    else:
        before = _per_axis(name, "padding", padding, n, 0)
        total = tuple(2 * p for p in before)
    size = _count_windows(name, "w", kernel, lengths, stride, total, dilation)
    y = primitive(x, w, geometry=nn.Geometry(stride, before, dilation, groups), size=size)
    return _finish(y, b, n, single)


def _convolve_transpose(name, primitive, n, x, w, b, stride, padding, output_padding, groups, dilation):
    x, w, b, single, groups = _convolution_operands(name, n, x, w, b, groups, out=1, into=0)
    stride, dilation = _per_axis(name, "stride", stride, n, 1), _per_axis(name, "dilation", dilation, n, 1)
    padding, extra = _per_axis(name, "padding", padding, n, 0), _per_axis(name, "output_padding", output_padding, n, 0)
    if any(e >= max(s, d) for e, s, d in zip(extra, stride, dilation)):
        raise ValueError(f"{name}: output_padding={extra} must be less than stride={stride} or dilation={dilation}")
    if not all(x.shape[2:]) or not all(w.shape[2:]):
        raise ValueError(f"{name}: the spatial axes of x and w must not be empty, got shapes {x.shape} and {w.shape}")
    size = tuple((m - 1) * s - 2 * p + d * (k - 1) + 1 + e
                 for m, s, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, w.shape[2:], extra))  # fmt: skip
    if any(m < 1 for m in size):
        raise ValueError(f"{name}: padding={padding} leaves a result of spatial size {size}; "
                         f"x has {x.shape[2:]} and w {w.shape[2:]}")  # fmt: skip
    y = primitive(x, w, geometry=nn.Geometry(stride, padding, dilation, groups), size=size)
    return _finish(y, b, n, single)


def _convolution_operands(name, n, x, w, b, groups, out, into):
    """The operands in one dtype, x with a batch axis; `out` and `into`: the axes of w for result and x channels."""
    x, w = _operand(name, x), _operand(name, w, "w")
    groups = _integer(name, "groups", groups, 1)
    x, single = _with_batch(name, x, n)
    if len(w.shape) != n + 2:
        raise ValueError(f"{name}: w must have {n + 2} axes, got shape {w.shape}")
    channels, single_axis = x.shape[1], 0 if single else 1
    expected = w.shape[into] * (groups if into else 1)
    shape = x.shape[1:] if single else x.shape
    if channels != expected or not channels:
        raise ValueError(f"{name}: x has {channels} channels (axis {single_axis} of shape {shape}) but w expects "
                         f"{expected} (axis {into} of shape {w.shape}) with groups={groups}")  # fmt: skip
    if w.shape[0] % groups or not w.shape[out]:
        raise ValueError(f"{name}: axis 0 of w, of shape {w.shape}, must be a multiple of groups={groups}, and no "
                         "channel axis may be empty")  # fmt: skip
    if b is not None:
        b, results = _operand(name, b, "b"), w.shape[out] * (groups if out else 1)
        if b.shape != (results,):
            raise ValueError(f"{name}: b must have one entry for each of the {results} channels of the result, got "
                             f"shape {b.shape}")  # fmt: skip
        x, w, b = _promote(x, w, b)
    else:
        x, w = _promote(x, w)
    return x, w, b, single, groups


def _finish(y, b, n, single):
    if b is not None:
        y = y + np.reshape(b, (-1, *(1,) * n))
    return np.squeeze(y, 0) if single else y


# Pools


def avg_pool2d(x, kernel_size, stride=None, padding=0):
    """The mean of each window of an image.

    `x`: (N, C, H, W), or (C, H, W) without a batch; floating dtypes are kept, others become float64. `kernel_size`,
    `stride` (None: kernel_size), `padding` (at most half the kernel; counts as 0): an integer, or two. The result has
    (H + 2·padding - KH)//stride + 1 rows: what is left over at the end belongs to no window. ValueError when shapes do
    not fit.

    >>> import numpy as np, autodiff as ad
    >>> ad.avg_pool2d(np.arange(10.0).reshape(1, 1, 2, 5), 2)
    array([[[[3., 5.]]]])
    """
    return _pool("avg_pool2d", nn.avg_pool2d, _floating("avg_pool2d", x), kernel_size, stride, padding, 1)


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1):
    """The maximum of each window of an image.

    `x`: (N, C, H, W), or (C, H, W) without a batch; any real dtype, kept. `kernel_size`, `stride` (None: kernel_size),
    `padding` (at most half the window; never wins), `dilation`: an integer, or two. The result has
    (H + 2·padding - dilation·(KH-1) - 1)//stride + 1 rows: what is left over at the end belongs to no window. Entries
    of a window that tie share its gradient evenly, where PyTorch gives it to the first. ValueError when shapes do not
    fit.

    >>> import numpy as np, autodiff as ad
    >>> x = ad.Var([[[[1.0, 3.0, 0.0, 0.0], [3.0, 2.0, 5.0, 0.0]]]])
    >>> ad.max_pool2d(x, 2).sum().backward()[x]
    Tensor([[[[0. , 0.5, 0. , 0. ],
              [0.5, 0. , 1. , 0. ]]]])
    """
    return _pool("max_pool2d", nn.max_pool2d, _operand("max_pool2d", x), kernel_size, stride, padding, dilation)


def _pool(name, primitive, x, kernel_size, stride, padding, dilation):
    x, single = _with_batch(name, x, 2)
    kernel = _per_axis(name, "kernel_size", kernel_size, 2, 1)
    stride = kernel if stride is None else _per_axis(name, "stride", stride, 2, 1)
    padding, dilation = _per_axis(name, "padding", padding, 2, 0), _per_axis(name, "dilation", dilation, 2, 1)
    if any(2 * p > d * (k - 1) + 1 for p, k, d in zip(padding, kernel, dilation)):
        raise ValueError(f"{name}: padding={padding} must be at most half the window, of kernel_size={kernel}"
                         + (f" and dilation={dilation}" if max(dilation) > 1 else ""))  # fmt: skip
    total = tuple(2 * p for p in padding)
    size = _count_windows(name, "kernel_size", kernel, x.shape[2:], stride, total, dilation)
    y = primitive(x, kernel=kernel, geometry=nn.Geometry(stride, padding, dilation), size=size)
    return np.squeeze(y, 0) if single else y


# Upsampling


def upsample_nearest1d(x, size):
    """Resize one spatial axis: each result reads the entry at floor(i·L/size), found in integers.

    `x`: (N, C, L), any real dtype, kept. `size`: the new length, any positive integer. The result is (N, C, size).
    Gradients of results that read the same entry add up. ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.upsample_nearest1d([[[1.0, 2.0, 3.0]]], 5)
    array([[[1., 1., 2., 2., 3.]]])
    """
    return _upsample("upsample_nearest1d", nn.upsample_nearest1d, _operand("upsample_nearest1d", x), size, 1, "nearest")


def upsample_nearest2d(x, size):
    """Resize an image: each result reads the entry at floor(i·H/size[0]), floor(j·W/size[1]), found in integers.

    `x`: (N, C, H, W), any real dtype, kept. `size`: the new height and width, or one integer for both; any positive
    size. The result is (N, C, *size). Gradients of results that read the same entry add up. ValueError when shapes do
    not fit.

    >>> import autodiff as ad
    >>> ad.upsample_nearest2d([[[[1.0, 2.0]]]], (2, 4))
    array([[[[1., 1., 2., 2.],
             [1., 1., 2., 2.]]]])
    """
    return _upsample("upsample_nearest2d", nn.upsample_nearest2d, _operand("upsample_nearest2d", x), size, 2, "nearest")


def upsample_bilinear2d(x, size, align_corners=False):
    """Resize an image: each result is interpolated between its neighbours, linearly on each axis.

    `x`: (N, C, H, W); floating dtypes are kept, others become float64. `size`: the new height and width, or one integer
    for both; any positive size. `align_corners`: whether the centres of the corner entries stay in place, so that
    result i reads at i·(H-1)/(size-1), or the outer edges do, and it reads at max((i+½)·H/size - ½, 0), as in PyTorch.
    ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.upsample_bilinear2d([[[[0.0, 4.0]]]], (1, 4)), ad.upsample_bilinear2d([[[[0.0, 3.0]]]], (1, 4), True)
    (array([[[[0., 1., 3., 4.]]]]), array([[[[0., 1., 2., 3.]]]]))
    """
    x, mode = _floating("upsample_bilinear2d", x), "corners" if align_corners else "edges"
    return _upsample("upsample_bilinear2d", nn.upsample_bilinear2d, x, size, 2, mode)


def _upsample(name, primitive, x, size, n, mode):
    if len(x.shape) != n + 2 or not all(x.shape[2:]):
        raise ValueError(f"{name}: x must have {n + 2} axes, the spatial ones not empty, got shape {x.shape}")
    return primitive(x, size=_per_axis(name, "size", size, n, 1), mode=mode)


# Reading and writing by index arrays


def gather(x, axis, index):
    """The entries that `index` names on an axis: y[i,j] = x[index[i,j], j] for axis 0, and so on.

    `x`: any shape and real dtype, kept. `index`: integers, as many axes as x and on the others no longer than x; the
    result has its shape. IndexError for an entry out of range, ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.gather([[1.0, 2.0], [3.0, 4.0]], 1, [[0, 0], [1, 0]])
    array([[1., 1.],
           [4., 3.]])
    """
    x = _operand("gather", x)
    axis = _axis("gather", x, axis)
    return nn.gather(x, axis=axis, index=_entry_index("gather", x, axis, index))


def scatter(x, axis, index, src):
    """`x` with the entries that `index` names on an axis replaced: y[index[i,j], j] = src[i,j] for axis 0, and so on.

    `x`: any shape and real dtype. `index`: integers, as many axes as x and on the others no longer than x. `src`: at
    least as long as index on each axis; what is beyond is not read; or a number. The result has the shape of x. Where
    an entry is named more than once, the last write in row-major order stays, and it alone gets the gradient.
    IndexError for an entry out of range, ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.scatter([0.0, 0.0, 0.0], 0, [2, 2, 0], [1.0, 2.0, 3.0])
    array([3., 0., 2.])
    """
    return _write("scatter", nn.scatter, x, axis, index, src)


def scatter_add(x, axis, index, src):
    """`x` with `src` added to the entries that `index` names: y[index[i,j], j] += src[i,j] for axis 0, and so on.

    `x`: any shape and real dtype. `index`: integers, as many axes as x and on the others no longer than x. `src`: at
    least as long as index on each axis; what is beyond is not read; or a number. The result has the shape of x. An
    entry that is named more than once gets several additions. IndexError for an entry out of range, ValueError when
    shapes do not fit.

    >>> import autodiff as ad
    >>> ad.scatter_add([0.0, 0.0, 0.0], 0, [2, 2, 0], [1.0, 2.0, 3.0])
    array([3., 0., 3.])
    """
    return _write("scatter_add", nn.scatter_add, x, axis, index, src)


def index_select(x, axis, index):
    """The slices of `x` that `index` names on an axis: `np.take` with PyTorch's name.

    `x`: any shape and real dtype, kept. `index`: integers on one axis. The result has the shape of x with the length
    of index on the axis. Gradients of repeated slices add up. IndexError for an entry out of range.

    >>> import autodiff as ad
    >>> ad.index_select([[1.0, 2.0, 3.0]], 1, [2, 0, 2])
    array([[3., 1., 3.]])
    """
    x = _operand("index_select", x)
    axis = _axis("index_select", x, axis)
    return np.take(x, _slice_index("index_select", x, axis, index), axis)


def index_add(x, axis, index, src):
    """`x` with slice i of `src` added to its slice ``index[i]`` on an axis.

    `x`: any shape and real dtype. `index`: integers on one axis. `src`: the shape of x with the length of index on the
    axis. The result has the shape of x. A slice that is named more than once gets several additions. IndexError for
    an entry out of range, ValueError when shapes do not fit: nothing is broadcast.

    >>> import autodiff as ad
    >>> ad.index_add([0.0, 0.0, 0.0], 0, [2, 2, 0], [1.0, 2.0, 3.0])
    array([3., 0., 3.])
    """
    x, src = _operand("index_add", x), _source("index_add", x, src)
    axis = _axis("index_add", x, axis)
    index = _slice_index("index_add", x, axis, index)
    expected = (*x.shape[:axis], len(index), *x.shape[axis + 1 :])
    if src.shape != expected:
        raise ValueError(f"index_add: src must have shape {expected}, that of x with the {len(index)} entries of index "
                         f"on axis {axis}, got {src.shape}; use np.broadcast_to to repeat it")  # fmt: skip
    x, src = _promote(x, src)
    return nn.index_add(x, src, axis=axis, index=index)


def slice_scatter(x, src, axis=0, start=None, end=None, step=1):
    """`x` with its slice ``start:end:step`` on an axis replaced by `src`.

    `x`: any shape and real dtype. `src`: the shape of the slice, or a number. `start`, `end`: as in a Python slice;
    `step`: a positive integer. The result has the shape of x. ValueError when shapes do not fit.

    >>> import autodiff as ad
    >>> ad.slice_scatter([0.0, 0.0, 0.0, 0.0], [1.0, 2.0], start=1, step=2)
    array([0., 1., 0., 2.])
    """
    x, src = _operand("slice_scatter", x), _source("slice_scatter", x, src)
    axis, step = _axis("slice_scatter", x, axis), _integer("slice_scatter", "step", step, 1)
    start, end, step = slice(start, end, step).indices(x.shape[axis])
    length = len(range(start, end, step))
    expected = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    if not src.shape:
        src = np.broadcast_to(src, expected)
    if src.shape != expected:
        raise ValueError(f"slice_scatter: src must have shape {expected}, that of the slice {start}:{end}:{step} on "
                         f"axis {axis} of x, got {src.shape}")  # fmt: skip
    x, src = _promote(x, src)
    return nn.slice_scatter(x, src, key=(slice(None),) * axis + (slice(start, end, step),))


def narrow(x, axis, start, length):
    """The part of `x` from `start` on, of this length, on an axis: slicing with PyTorch's name.

    `x`: any shape and real dtype, kept. `start`: an integer; a negative one counts from the end. `length`: at least 0.
    IndexError when the part reaches beyond x.

    >>> import autodiff as ad
    >>> ad.narrow([1.0, 2.0, 3.0, 4.0], 0, 1, 2)
    array([2., 3.])
    """
    x = _operand("narrow", x)
    axis, length = _axis("narrow", x, axis), _integer("narrow", "length", length, 0)
    start, n = _integer("narrow", "start", start), x.shape[axis]
    first = start + n if start < 0 else start
    if not 0 <= first <= n - length:
        raise IndexError(f"narrow: start={start} and length={length} reach beyond axis {axis}, of length {n}")
    return x[(slice(None),) * axis + (slice(first, first + length),)]


def _write(name, primitive, x, axis, index, src):
    x, src = _operand(name, x), _source(name, x, src)
    axis = _axis(name, x, axis)
    index = _entry_index(name, x, axis, index)
    if not src.shape:
        src = np.broadcast_to(src, index.shape)
    if len(src.shape) != index.ndim or any(m < n for m, n in zip(src.shape, index.shape)):
        raise ValueError(f"{name}: src must be at least as long as index, of shape {index.shape}, on each axis, got "
                         f"shape {src.shape}; use np.broadcast_to to repeat it")  # fmt: skip
    if src.shape != index.shape:
        src = src[tuple(slice(n) for n in index.shape)]
    x, src = _promote(x, src)
    return primitive(x, src, axis=axis, index=index)


# Checking and completing arguments


def _operand(function, x, name="x"):
    """A Tensor or an array, of real numbers."""
    if not isinstance(x, Node) and type(x) is not np.ndarray:
        x = as_operand(x, f"ad.{function}") if isinstance(x, (list, tuple)) else np.asarray(plain(x, f"ad.{function}"))
    if x.dtype.kind not in "fiub":
        raise TypeError(f"{function}: {name} must hold real numbers, got dtype {x.dtype}")
    return x


def _floating(function, x):
    x = _operand(function, x)
    return x if x.dtype.kind == "f" else astype(x, np.dtype(np.float64))


def _source(function, x, src):
    """The operand `src`; a Python number does not widen the dtype of `x`."""
    if isinstance(src, (int, float)) and not isinstance(src, np.generic):
        return np.asarray(src, np.result_type(x.dtype, src))
    return _operand(function, src, "src")


def _promote(*operands):
    dtype = np.result_type(*(x.dtype for x in operands))
    return [x if x.dtype == dtype else astype(x, dtype) for x in operands]


def _with_batch(function, x, n):
    """`x` with a batch axis, and whether it had none."""
    if len(x.shape) not in (n + 1, n + 2):
        raise ValueError(f"{function}: x must have {n + 2} axes (batch, channels, {n} spatial), or {n + 1} without the "
                         f"batch, got shape {x.shape}")  # fmt: skip
    single = len(x.shape) == n + 1
    return (np.expand_dims(x, 0) if single else x), single


def _count_windows(function, argument, kernel, lengths, stride, padding, dilation):
    """How many windows fit on each axis; `padding`: on both sides together."""
    reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
    if not all(kernel) or any(r > n + p for r, n, p in zip(reach, lengths, padding)):
        padded = tuple(n + p for n, p in zip(lengths, padding))
        raise ValueError(f"{function}: a window spans {reach} entries ({argument} {kernel}, dilation {dilation}) but "
                         f"the spatial size of x is {lengths}, {padded} with padding")  # fmt: skip
    return tuple((n + p - r) // s + 1 for n, p, r, s in zip(lengths, padding, reach, stride))


def _integer(function, argument, value, least=None):
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{function}: {argument} must be an integer, got {value!r}")
    if least is not None and number < least:
        raise ValueError(f"{function}: {argument} must be at least {least}, got {number}")
    return number


def _per_axis(function, argument, value, n, least):
    """One integer for each spatial axis; a single one stands for all."""
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == n:
        return tuple(_integer(function, argument, v, least) for v in value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return (_integer(function, argument, value, least),) * n
    count = "a sequence of one" if n == 1 else f"{n} of them"
    raise TypeError(f"{function}: {argument} must be an integer or {count}, got {value!r}")


def _axis(function, x, axis):
    number, n = _integer(function, "axis", axis), len(x.shape)
    if not -n <= number < n:
        raise np.exceptions.AxisError(f"{function}: axis {number} is out of range for x of shape {x.shape}: expected "
                                      + (f"{-n} to {n - 1}" if n else "an x with at least one axis"))  # fmt: skip
    return number % n


def _axes(function, x, axis):
    """The axis or axes, counted from the front; None stays None."""
    if axis is None:
        return None
    if not isinstance(axis, (tuple, list)):
        return _axis(function, x, axis)
    axes = tuple(_axis(function, x, i) for i in axis)
    if len(set(axes)) < len(axes):
        raise ValueError(f"{function}: axis {tuple(axis)} names an axis of x, of shape {x.shape}, more than once")
    return axes


def _index(function, x, axis, index):
    """The index as an array of its own, counted from the front."""
    index, n = np.asarray(value_of(index, f"ad.{function}")), x.shape[axis]
    if index.dtype.kind not in "iu" and index.size:
        raise TypeError(f"{function}: index must hold integers, got dtype {index.dtype}"
                        + ("; np.flatnonzero turns a mask into positions" if index.dtype == bool else ""))  # fmt: skip
    index = index.astype(np.intp)
    bad = (index < -n) | (index >= n)
    if bad.any():
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        raise IndexError(f"{function}: index holds {index[at]} at {at}, out of range for axis {axis} of x, of shape "
                         f"{x.shape}" + (f": expected {-n} to {n - 1}" if n else ""))  # fmt: skip
    index[index < 0] += n
    index.setflags(write=False)
    return index


def _entry_index(function, x, axis, index):
    index, shape = _index(function, x, axis, index), x.shape
    if index.ndim != len(shape):
        raise ValueError(f"{function}: index must have as many axes as x, of shape {shape}, got shape {index.shape}")
    if any(i > n for d, (i, n) in enumerate(zip(index.shape, shape)) if d != axis):
        raise ValueError(f"{function}: index, of shape {index.shape}, must not be longer than x, of shape {shape}, on "
                         f"any axis but axis {axis}")  # fmt: skip
    return index


def _slice_index(function, x, axis, index):
    index = _index(function, x, axis, index)
    if index.ndim != 1:
        raise ValueError(f"{function}: index must have one axis, got shape {index.shape}; use gather for one index for "
                         "each entry")  # fmt: skip
    return index
