"""Exercise 17: an engine in seven parts, each of which may be the learner's or ours.

In a notebook::

    from autodiff.course.capstone import Engine, board, reads

    board(globals())                                         # which lessons' tests pass on your engine
    Engine.of(globals()).draw(lambda x: x * x, x=3.0)        # a graph of your engine, and .step to step it
    with Engine.of(globals()):                               # here each stub is one of our parts
        print(2 * Node(3.0, variable=True))

`mini` has our parts, `engine` mixes them with the learner's, `watch` sees when ours do the work of theirs, `suite`
tests them together. Each part has a file with the faults that its check knows and the questions that it asks: `rules`,
`node`, `record`, `order`, `store`, `backward`, `gradcheck`; and `loop` for the training loop.
"""

from autodiff.course.capstone.engine import PARTS, Engine, board, reads

__all__ = ["PARTS", "Engine", "board", "reads"]
