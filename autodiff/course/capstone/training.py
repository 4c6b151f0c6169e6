"""The classifier of lesson 14 for engines made of parts: a small network, and handwritten digits.

scikit-learn is imported only when digits are asked for.
"""

import functools

import numpy as np

EPOCHS, RATE, BATCH = 5, 0.5, 20
ENOUGH = 0.9  # the share of unseen digits that must be read right


@functools.cache
def digits():
    """(x_train, hot, x_unseen, y_unseen): 400 pictures with a 1 at the right digit, and 400 others with labels."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.data))
    pictures, labels = found.data[order] / 16, found.target[order]
    made = pictures[:400], np.eye(10)[labels[:400]], pictures[-400:], labels[-400:]
    for array in made:
        array.flags.writeable = False
    return made


def network() -> list:
    """The first W1, b1, W2, b2."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal((64, 16)) / 8, np.zeros(16), rng.standard_normal((16, 10)) / 10, np.zeros(10)]


def batches(epochs: int = EPOCHS) -> list:
    """Pairs (x, hot) of 20 pictures: all of them once in each epoch, in another order each time."""
    x, hot, *_ = digits()
    rng, made = np.random.default_rng(1), []
    for _ in range(epochs):
        made += [(x[rows], hot[rows]) for rows in np.split(rng.permutation(len(x)), len(x) // BATCH)]
    return made


def loss_with(engine, params, x, hot):
    """The loss of a batch, as a node of an engine."""
    W1, b1, W2, b2 = params
    scores = engine.apply("tanh", x @ W1 + b1) @ W2 + b2
    log_p = scores - engine.apply("log", engine.apply("exp", scores).sum(axis=1))
    return (log_p * hot).sum() * (-1 / len(x))


def train_with(engine) -> list:
    """The params as arrays, after training with an engine whose ``with`` block is entered."""
    params = network()
    for x, hot in batches():
        nodes = [engine.Node(p, variable=True) for p in params]
        grads = engine.backward(loss_with(engine, nodes, x, hot))
        params = [p - RATE * grads[node] for p, node in zip(params, nodes)]
    return params


@functools.cache
def right_params() -> tuple:
    """The params after the same training with `autodiff`."""
    import autodiff as ad

    variables = [ad.Var(p) for p in network()]
    optimiser = ad.optim.SGD(variables, lr=RATE)
    for x, hot in batches():
        W1, b1, W2, b2 = variables
        scores = np.tanh(x @ W1 + b1) @ W2 + b2
        loss = -(ad.log_softmax(scores, axis=1) * hot).sum() / len(x)
        optimiser.step(loss.backward())
    return tuple(np.array(v.data) for v in variables)


def scores_of(params, x):
    """The scores of pictures, for params as arrays."""
    W1, b1, W2, b2 = params
    return np.tanh(x @ W1 + b1) @ W2 + b2


def share_right(params) -> float:
    """The share of unseen digits that a network reads right."""
    *_, x, y = digits()
    return float(np.mean(scores_of(params, x).argmax(axis=1) == y))
