"""The test table of `autodiff.functions`: what to call, on which operands, and the same in PyTorch.

To add a function, add its rule in autodiff/rules/nn.py and its case here; `test_functions.py` does the rest.
"""

import numpy as np
from cases import Case, spread

import autodiff as ad

CASES = []
INT = np.array


def case(function, *operands, torch=None, name=None, second=True, **options):
    """Enter a case; `torch`: a function of (torch.nn.functional, *operands), or None where it has no such thing."""
    label = name or "-".join([function.__name__, *(f"{k}={v}".replace(" ", "") for k, v in options.items())])
    other = torch and (lambda t, *xs: torch(t.nn.functional, *xs))
    CASES.append(Case(function, label, operands, function, other, second=second, options=options))


# Activations
A = spread(3, 4)
case(ad.relu, A, torch=lambda F, x: F.relu(x))
case(ad.elu, A, torch=lambda F, x: F.elu(x))
case(ad.elu, A, alpha=0.7, torch=lambda F, x: F.elu(x, 0.7))
case(ad.elu, A, alpha=-1.5, torch=lambda F, x: F.elu(x, -1.5))
case(ad.gelu, A, torch=lambda F, x: F.gelu(x))
case(ad.gelu, 3 * A, approximate="none", torch=lambda F, x: F.gelu(x))
case(ad.gelu, A, approximate="tanh", torch=lambda F, x: F.gelu(x, approximate="tanh"))
case(ad.silu, 3 * A, torch=lambda F, x: F.silu(x))
case(ad.sigmoid, 3 * A, torch=lambda F, x: x.sigmoid())
case(ad.softplus, 3 * A, torch=lambda F, x: F.softplus(x))
case(ad.softplus, A, beta=2.5, torch=lambda F, x: F.softplus(x, 2.5))
case(ad.softplus, A, beta=-2)
case(ad.erf, A, torch=lambda F, x: x.erf())

# Exponentials over an axis
T = spread(2, 3, 4, seed=5)
for axis in (0, 1, -1):
    case(ad.softmax, T, axis=axis, torch=lambda F, x, axis=axis: F.softmax(x, axis))
    case(ad.log_softmax, T, axis=axis, torch=lambda F, x, axis=axis: F.log_softmax(x, axis))
for axis, keepdims in ((0, False), (-1, True), ((0, 2), False), ((-1, 0), True)):
    case(ad.logsumexp, T, axis=axis, keepdims=keepdims, torch=lambda F, x, a=axis, k=keepdims: x.logsumexp(a, k))
case(ad.logsumexp, T, torch=lambda F, x: x.logsumexp((0, 1, 2)))
case(ad.softmax, T, axis=(0, 2))
case(ad.log_softmax, T, axis=(0, 2))
case(ad.softmax, T, axis=None)
case(ad.log_softmax, T, axis=None)
case(ad.softmax, spread(3, 1), axis=1, name="softmax-of-one", torch=lambda F, x: F.softmax(x, 1))

# Convolutions
GEOMETRIES = {
    1: (
        {},
        dict(stride=2),
        dict(padding=2),
        dict(dilation=2),
        dict(groups=2),
        dict(stride=3, padding=1),
        dict(stride=2, padding=2, dilation=2, groups=2),
        dict(padding="same"),
        dict(padding="same", dilation=3),
        dict(padding="valid"),
    ),
    2: (
        {},
        dict(stride=2),
        dict(stride=(1, 2), padding=(2, 0)),
        dict(dilation=(2, 1), padding=1),
        dict(groups=2),
        dict(stride=2, padding=1, dilation=2, groups=2),
        dict(stride=3),
        dict(padding="same", dilation=(1, 2)),
    ),
}
for geometry in GEOMETRIES[1]:
    w = spread(4, 2 // geometry.get("groups", 1), 3, seed=1)
    call = lambda F, x, w, b, geometry=geometry: F.conv1d(x, w, b, **geometry)
    case(ad.conv1d, spread(2, 2, 7), w, spread(4, seed=2), torch=call, **geometry)
for geometry in GEOMETRIES[2]:
    w = spread(2, 2 // geometry.get("groups", 1), 2, 3, seed=1)
    call = lambda F, x, w, b, geometry=geometry: F.conv2d(x, w, b, **geometry)
    case(ad.conv2d, spread(2, 2, 4, 5), w, spread(2, seed=2), torch=call, **geometry)
case(ad.conv1d, spread(2, 6), spread(3, 2, 3), torch=lambda F, x, w: F.conv1d(x, w), name="conv1d-no-batch")
case(ad.conv2d, spread(2, 4, 4), spread(3, 2, 2, 2), spread(3), name="conv2d-no-batch",
     torch=lambda F, x, w, b: F.conv2d(x, w, b))  # fmt: skip
case(ad.conv2d, spread(2, 3, 3, 2), spread(2, 3, 1, 1), torch=lambda F, x, w: F.conv2d(x, w), name="conv2d-1x1")
case(ad.conv2d, spread(2, 2, 3, 4), spread(2, 2, 3, 4), torch=lambda F, x, w: F.conv2d(x, w), name="conv2d-whole")

TRANSPOSED = {
    1: (
        {},
        dict(stride=2, output_padding=1),
        dict(padding=2, dilation=2),
        dict(stride=3, padding=2, output_padding=2, groups=2),
        dict(stride=1, dilation=3, output_padding=2),
    ),
    2: (
        {},
        dict(stride=2, padding=1, output_padding=1),
        dict(stride=(1, 2), padding=(0, 1), output_padding=(0, 1)),
        dict(stride=2, dilation=(2, 1), groups=2),
        dict(stride=2, dilation=2, padding=1, output_padding=1),
        dict(dilation=(2, 3), output_padding=(1, 2)),
    ),
}
for geometry in TRANSPOSED[1]:
    out = 4 // geometry.get("groups", 1)
    call = lambda F, x, w, b, geometry=geometry: F.conv_transpose1d(x, w, b, **geometry)
    case(ad.conv_transpose1d, spread(2, 2, 4), spread(2, out, 3, seed=1), spread(4, seed=2), torch=call, **geometry)
for geometry in TRANSPOSED[2]:
    out = 2 // geometry.get("groups", 1)
    call = lambda F, x, w, b, geometry=geometry: F.conv_transpose2d(x, w, b, **geometry)
    case(ad.conv_transpose2d, spread(2, 2, 2, 3), spread(2, out, 3, 2, seed=1), spread(2, seed=2), torch=call,
         **geometry)  # fmt: skip
case(ad.conv_transpose2d, spread(2, 2, 3), spread(2, 3, 2, 2), name="conv_transpose2d-no-batch",
     torch=lambda F, x, w: F.conv_transpose2d(x, w))  # fmt: skip

# Pools; 5 by 7 is not divisible by the windows
POOLS = (
    dict(kernel_size=2),
    dict(kernel_size=(2, 3)),
    dict(kernel_size=3, stride=1),
    dict(kernel_size=2, stride=3),
    dict(kernel_size=3, stride=2, padding=1),
    dict(kernel_size=(1, 4), stride=(2, 1), padding=(0, 2)),
    dict(kernel_size=1),
)
for geometry in POOLS:
    case(ad.avg_pool2d, spread(1, 2, 5, 7), torch=lambda F, x, g=geometry: F.avg_pool2d(x, **g), **geometry)
    case(ad.max_pool2d, spread(1, 2, 5, 7), torch=lambda F, x, g=geometry: F.max_pool2d(x, **g), **geometry)
case(ad.max_pool2d, spread(1, 2, 5, 7), torch=lambda F, x: F.max_pool2d(x, 2, 1, 1, 2), kernel_size=2, stride=1,
     padding=1, dilation=2)  # fmt: skip
case(ad.max_pool2d, spread(2, 4, 4), kernel_size=2, name="max_pool2d-no-batch", torch=lambda F, x: F.max_pool2d(x, 2))
case(ad.avg_pool2d, spread(2, 4, 4), kernel_size=2, name="avg_pool2d-no-batch", torch=lambda F, x: F.avg_pool2d(x, 2))

# Upsampling, to sizes above and below
for size in (6, 7, 3, 2, 1):
    case(ad.upsample_nearest1d, spread(2, 2, 3), size=size, torch=lambda F, x, s=size: F.interpolate(x, s))
for size in ((4, 6), (5, 4), (1, 2), (2, 7)):
    call = lambda F, x, s=size: F.interpolate(x, s)
    case(ad.upsample_nearest2d, spread(1, 2, 2, 3), size=size, torch=call)
    for corners in (False, True):
        call = lambda F, x, s=size, c=corners: F.interpolate(x, s, mode="bilinear", align_corners=c)
        case(ad.upsample_bilinear2d, spread(1, 2, 3, 4), size=size, align_corners=corners, torch=call)
case(ad.upsample_bilinear2d, spread(1, 1, 1, 3), size=(4, 1), align_corners=True, name="upsample_bilinear2d-one",
     torch=lambda F, x: F.interpolate(x, (4, 1), mode="bilinear", align_corners=True))  # fmt: skip

# Reading and writing by index arrays
X, S = spread(3, 4), spread(3, 4, seed=1)
ROWS = INT([[2, 0, 1, 0], [0, 0, 1, 2]])
COLUMNS = INT([[3, 0, 0], [1, 1, 1], [2, 0, 3]])
case(ad.gather, X, 0, ROWS, torch=lambda F, x, axis, i: x.gather(axis, i), name="gather-rows")
case(ad.gather, X, -1, COLUMNS, torch=lambda F, x, axis, i: x.gather(axis, i), name="gather-columns")
case(ad.gather, X, 1, INT([[0, 3, 3, 3, 1, 0]]), torch=lambda F, x, axis, i: x.gather(axis, i), name="gather-longer")
case(ad.gather, X, 1, INT([[-1, -4], [0, -2]]), name="gather-from-the-end")
# PyTorch finds no gradient for a src that is longer than the index, so it gets the part that is read
part = lambda s, i: s[: i.shape[0], : i.shape[1]]
case(ad.scatter_add, X, 0, ROWS, S, torch=lambda F, x, axis, i, s: x.scatter_add(axis, i, part(s, i)),
     name="scatter_add-rows")  # fmt: skip
case(ad.scatter_add, X, 1, COLUMNS, S, torch=lambda F, x, axis, i, s: x.scatter_add(axis, i, part(s, i)),
     name="scatter_add-columns")  # fmt: skip
case(ad.scatter, X, 0, INT([[2, 0, 1, 0], [0, 1, 2, 2]]), S, name="scatter-rows",
     torch=lambda F, x, axis, i, s: x.scatter(axis, i, part(s, i)))  # fmt: skip
case(ad.scatter, X, -1, INT([[3, 0], [1, 2]]), S, name="scatter-columns",
     torch=lambda F, x, axis, i, s: x.scatter(axis, i, part(s, i)))  # fmt: skip
case(ad.scatter, X, 1, COLUMNS, S, name="scatter-repeated")  # PyTorch does not say which write stays
case(ad.scatter, X, 1, COLUMNS, 2.5, torch=lambda F, x, axis, i, s: x.scatter(axis, i, s), name="scatter-number")
for index in (INT([2, 0, 0]), INT([1]), INT([0, 1, 2]), INT([2, 1, 0, 2, 1, 0])):
    name = "-".join(map(str, index))
    case(ad.index_select, X, 0, index, torch=lambda F, x, axis, i: x.index_select(axis, i), name=f"index_select-{name}")
    case(ad.index_add, X, 0, index, spread(len(index), 4, seed=1), name=f"index_add-{name}",
         torch=lambda F, x, axis, i, s: x.index_add(axis, i, s))  # fmt: skip
case(ad.index_select, T, -1, INT([3, 3, 0]), torch=lambda F, x, axis, i: x.index_select(axis, i),
     name="index_select-last")  # fmt: skip
case(ad.index_add, T, 1, INT([2, 2, 0]), spread(2, 3, 4), torch=lambda F, x, axis, i, s: x.index_add(axis, i, s),
     name="index_add-middle")  # fmt: skip
case(ad.index_add, T, 1, INT([-1, 0]), spread(2, 2, 4), name="index_add-from-the-end")
for axis, start, end, step in ((0, 1, None, 1), (1, None, 3, 2), (-1, -3, -1, 1), (1, 3, 99, 1)):
    shape = X[(slice(None),) * (axis % 2) + (slice(start, end, step),)].shape
    case(ad.slice_scatter, X, spread(*shape, seed=1), axis=axis, start=start, end=end, step=step,
         torch=lambda F, x, s, a=(axis, start, end, step): x.slice_scatter(s, *a))  # fmt: skip
case(ad.narrow, X, 0, 1, 2, torch=lambda F, x, *a: x.narrow(*a), name="narrow-rows")
case(ad.narrow, X, -1, -3, 2, torch=lambda F, x, *a: x.narrow(*a), name="narrow-from-the-end")
case(ad.narrow, X, 1, 4, 0, torch=lambda F, x, *a: x.narrow(*a), name="narrow-empty")
