"""Checks of exercise 01, by hand: values and local slopes, one share for each edge, totals, and reading wrong totals.

One graph throughout, with other numbers when a task comes back. Wrong answers as a learner would type them, each with
the fault it must be given, are in wrong_answers/01.txt.
"""

import re
from dataclasses import replace

from autodiff.course.forms import by_hand
from autodiff.course.judge import Fault, blank
from autodiff.course.result import safe_repr, show_number

# One edge for each operand slot, named by its two ends, users first.
_EDGES = ("Ls", "La", "sb", "ba", "bx", "ax", "ay")
_NODES = ("L", "s", "b", "a", "x", "y")

# (x, y) for which no two mistakes make the same numbers.
_DEALS = ((2.0, 3.0), (3.0, 4.0), (-2.0, 5.0), (2.0, -4.0), (-3.0, 2.0), (3.0, -5.0), (-2.0, -6.0), (2.0, 5.0))


def _deal(number):
    return _DEALS[number % len(_DEALS)]


def _at(deal) -> str:
    return f"x = {show_number(deal[0])}, y = {show_number(deal[1])}"


def _given(deal) -> str:
    return f"{_at(deal)}, and a = x * y, b = a + x, s = b**2, L = s + a."


def _values(deal):
    x, y = deal
    a = x * y
    b = a + x
    return {"x": x, "y": y, "a": a, "b": b, "s": b * b, "L": b * b + a}


def _slopes(deal):
    v = _values(deal)
    return {"Ls": 1.0, "La": 1.0, "sb": 2 * v["b"], "ba": 1.0, "bx": 1.0, "ax": v["y"], "ay": v["x"]}


def _pass(deal, lost=(), slopes=(), join=lambda old, share: old + share):
    """({edge: share}, {node: gradient}) of a pass that loses some edges, has some other slopes or joins otherwise."""
    slopes = {**_slopes(deal), **dict(slopes)}
    shares, grads = {}, {"L": 1.0}
    for user, node in _EDGES:
        edge = user + node
        if edge not in lost:
            shares[edge] = grads.get(user, 0.0) * slopes[edge]
            grads[node] = join(grads[node], shares[edge]) if node in grads else shares[edge]
    return shares, grads


def _shares(deal, **how):
    shares = _pass(deal, **how)[0]
    return tuple(shares.get(e, 0.0) for e in _EDGES)


def _totals(deal, **how):
    grads = _pass(deal, **how)[1]
    return tuple(grads.get(n, 0.0) for n in _NODES)


def _no_two(deal):
    return {"sb": _values(deal)["b"]}


def _swapped(deal):
    return {"ax": deal[0], "ay": deal[1]}


def _only(names, **numbers):
    """A full row of answers in which only some names matter."""
    return tuple(numbers.get(name) for name in names)


# 01.a: the forward pass, and the local slopes.

_A = ("value_a", "value_b", "value_s", "value_L", "slope_sb", "slope_bx", "slope_ax", "slope_ay")


def _right_a(deal):
    v, k = _values(deal), _slopes(deal)
    return (v["a"], v["b"], v["s"], v["L"], k["sb"], k["bx"], k["ax"], k["ay"])


def _how_a(deal):
    x, y = map(show_number, deal)
    return (f"x * y, with x = {x} and y = {y}", "value_a + x", "value_b times itself", "value_s + value_a",
            "how fast b**2 grows when b grows: the derivative of a square, at your b",
            "hold a still; b = a + x then grows exactly as much as x does",
            "hold y still; x * y then grows y times as much as x does",
            "hold x still; x * y then grows x times as much as y does")


_FAULTS_A = (
    Fault("doubled", "the square is computed as 2 * b",
          "Your value_s is {value_s}, that is 2 * b. A square is b * b. The 2 belongs to its slope.",
          "the line s = b**2. Work out its value first, its slope after that.",
          (lambda d: _only(_A, value_s=2 * _values(d)["b"]),)),
    Fault("without-2", "the slope of the square lacks its 2",
          "Your slope_sb is {slope_sb}, and that is b. But b**2 is b * b: it has b in two slots, and each slot has the "
          "slope b. Together they make 2 * b.",
          "the rule for the derivative of a power, at b**2.",
          (lambda d: _only(_A, slope_sb=_values(d)["b"]),)),
    Fault("only-2", "the slope of the square is only the 2",
          "Your slope_sb is 2. The slope of a square is not the same everywhere: it is 2 * b, small near 0 and large "
          "far away.",
          "the derivative of b**2. Does b appear in yours?",
          (lambda d: _only(_A, slope_sb=2.0),)),
    Fault("value-for-slope", "the value of the square stands where its slope belongs",
          "Your slope_sb is {slope_sb}, the value of s. A slope says how fast s changes when b changes, not how large "
          "s is.",
          "b a little larger: how much larger does b**2 become?",
          (lambda d: _only(_A, slope_sb=_values(d)["s"]),)),
    Fault("own-value", "each slot of the product has its own value as slope",
          "Your slope_ax is x and your slope_ay is y. But the local slope of a slot of a product is the value in the "
          "*other* slot: when x grows by 1, x * y grows by y.",
          "y held still at its number: how much does x * y grow for each step of x?",
          (lambda d: _only(_A, slope_ax=d[0], slope_ay=d[1]),)),
    Fault("whole-for-local", "the slope along every path is given where one edge is asked for",
          "Your slope_bx is {slope_bx} = y + 1: that is how fast b grows when x moves *everywhere*, also inside a. The "
          "local slope looks at one slot alone, with a held still. The way through a has edges of its own, ba and ax.",
          "the line b = a + x, with a covered by your hand as a fixed number.",
          (lambda d: _only(_A, slope_bx=d[1] + 1),)),
    Fault("value-in-sum", "a value is used as the slope of a sum",
          "Your slope_bx is {slope_bx}, a value. For a product the value in the other slot is the slope, but b = a + x "
          "is a sum: when x grows by 1, b grows by 1, whatever the numbers are.",
          "x one larger, a as it is: how much larger is a + x?",
          (lambda d: _only(_A, slope_bx=d[0]), lambda d: _only(_A, slope_bx=_values(d)["a"]))),
)

# 01.b: one share for each edge.

_B = tuple("share_" + edge for edge in _EDGES)


def _how_b(deal):
    from_sum = "L has gradient 1, and a sum has slope 1 in each slot"
    return (from_sum, from_sum, "the gradient of s times the slope of the square at b",
            "the gradient of b times 1, because b = a + x is a sum",
            "the gradient of b times 1, because b = a + x is a sum",
            "the whole gradient of a, which is the sum of share_La and share_ba, times y",
            "the whole gradient of a, which is the sum of share_La and share_ba, times x")


def _b(deal, **edges):
    return tuple(edges.get(edge) for edge in _EDGES)


def _from_one(deal, edge):
    """The shares below a when only the share of one edge counts as the gradient of a."""
    shares = _pass(deal)[0]
    k = shares[edge]
    return _b(deal, **{**shares, "ax": k * deal[1], "ay": k * deal[0]})


def _totals_on_edges(deal, edges):
    shares, grads = _pass(deal)
    return _b(deal, **{e: grads[e[1]] if e in edges else None for e in _EDGES})


_FAULTS_B = (
    Fault("split", "a sum divides its gradient between its slots",
          "You shared the gradient of a sum out, one half to each slot. But a sum does not divide anything: if s grows "
          "by 1, L grows by the whole 1, and the same holds for a. *Each* slot gets the whole gradient.",
          "L = s + a, with a held still: how much does L grow when s grows by 1?",
          (lambda d: _b(d, Ls=0.5, La=0.5), lambda d: _b(d, Ls=1.0, La=1.0, ba=_values(d)["b"], bx=_values(d)["b"],
                                                         sb=2 * _values(d)["b"]))),
    Fault("without-2", "the square sends its share without the 2",
          "Your share_sb is {share_sb}, which is b. The slope of b**2 is 2 * b: the square is b * b, and both slots "
          "count. All shares below it are too small because of this.",
          "the edge from s to b. Everything below it has to be worked out again.",
          (lambda d: _shares(d, slopes=_no_two(d)), lambda d: _b(d, Ls=1.0, La=1.0, sb=_values(d)["b"]))),
    Fault("only-2", "the slope of the square is taken as 2",
          "Your share_sb is 2. The slope of b**2 at b is 2 * b, so the share contains the value of b.",
          "the derivative of b**2 at the number b.",
          (lambda d: _b(d, sb=2.0),)),
    Fault("value-for-slope", "the square sends its value, not its slope",
          "Your share_sb is {share_sb}, the value of s. An edge carries a gradient times a slope, and the slope of "
          "b**2 is 2 * b.",
          "the edge from s to b. How fast does b**2 grow when b grows?",
          (lambda d: _b(d, Ls=1.0, La=1.0, sb=_values(d)["s"]),)),
    Fault("upstream-missing", "the local slopes alone are sent",
          "Your shares are the local slopes. That is right as long as the gradient above is 1, at L and at s. From b "
          "on it is not: a share is (gradient of the upper node) times (local slope).",
          "the edge from b to a. Which gradient has arrived at b?",
          (lambda d: tuple(_slopes(d)[e] for e in _EDGES),)),
    Fault("share-for-total", "one share is used as if it were the whole gradient of a",
          "Two edges arrive at a, La and ba, and the shares below a are made from their *sum*. Your share_ax = "
          "{share_ax} and share_ay = {share_ay} are made from one of the two alone. Before a node sends, everything "
          "that arrives must be added.",
          "the edges La and ba. What is the sum of their shares?",
          (lambda d: _from_one(d, "ba"), lambda d: _from_one(d, "La"))),
    Fault("own-value", "the two slots of the product are exchanged",
          "Your share_ax contains x, and your share_ay contains y. Each slot of a product is multiplied by the value "
          "in the *other* slot.",
          "the edge from a to x. The local slope of x * y with respect to x is y.",
          (lambda d: _shares(d, slopes=_swapped(d)),)),
    Fault("values-sent", "a sum sends the values of its slots",
          "Your share_Ls is the value of s and your share_La is the value of a. That would be the forward pass. L = s "
          "+ a grows by 1 when s grows by 1, so each slot of a sum gets the gradient of the sum as it is.",
          "the local slope of a sum, in each of its slots.",
          (lambda d: _b(d, Ls=_values(d)["s"], La=_values(d)["a"]),)),
    Fault("total-on-edges", "the total of a node is written on each edge that leads to it",
          "Your edges to one and the same node all carry its total. A share belongs to one edge alone. The total is "
          "made afterwards, as the sum of the shares: that is task c.",
          "the edges La and ba, one at a time. What does each of them bring by itself?",
          (lambda d: _totals_on_edges(d, _EDGES), lambda d: _totals_on_edges(d, ("La", "ba")),
           lambda d: _totals_on_edges(d, ("bx", "ax")))),
)

# 01.c: the totals.

_C = tuple("grad_" + node for node in _NODES)


def _how_c(deal):
    return ("dL/dL, how fast L grows when L grows", "the share that arrives on Ls", "the share that arrives on sb",
            "two edges arrive at a: share_La + share_ba", "two edges arrive at x: share_bx + share_ax",
            "one edge arrives at y: share_ay")


def _keep_new(old, share):
    return share


def _keep_old(old, share):
    return old


def _mixed(deal, at_a, at_x):
    """Totals with another way to join at a, and at x."""
    g, shares = 2 * _values(deal)["b"], _pass(deal)[0]
    a = at_a(shares["La"], shares["ba"])
    return (1.0, 1.0, g, a, at_x(g, a * deal[1]), a * deal[0])


_PLUS = lambda old, share: old + share
_TIMES = lambda old, share: old * share
_JOINS = (_keep_new, _keep_old)

_FAULTS_C = (
    Fault("values", "the values are given, not the gradients",
          "These are the values of the forward pass. The value of a node says how large it is; its gradient says how "
          "fast L grows when this node grows.",
          "the shares of task b. The numbers of this task are sums of them.",
          (lambda d: tuple(_values(d)[n] for n in _NODES),)),
    Fault("direct-path", "the direct way from L to a is missing",
          "Your grad_a is {grad_a}: only what came through b. But L = s + a uses a once more, directly, and this edge "
          "brings a share too. x and y below are too small by the same mistake.",
          "the last line, L = s + a. Which nodes does it use?",
          (lambda d: _totals(d, lost=("La",)),)),
    Fault("through-b", "the way from L to a through the square is missing",
          "Your grad_a is {grad_a}: only the direct share of L = s + a. But b = a + x uses a as well, and all of b's "
          "gradient comes down this edge.",
          "the line b = a + x. Which nodes does it use?",
          (lambda d: _totals(d, lost=("ba",)),)),
    Fault("direct-x", "the direct way from b to x is missing",
          "Your grad_x is {grad_x}: only what came through a. But b = a + x uses x directly, and this share is "
          "missing.",
          "all lines with x on the right of the = sign. Each of them is an edge to x.",
          (lambda d: _totals(d, lost=("bx",)),)),
    Fault("x-through-a", "the way from a to x is missing",
          "Your grad_x is {grad_x}: only the share of b = a + x. But a = x * y uses x as well.",
          "all lines with x on the right of the = sign. Each of them is an edge to x.",
          (lambda d: _totals(d, lost=("ax",)),)),
    Fault("one-share", "a single share is given where the sum belongs, at a and at x",
          "At a as well as at x there is one share and not the sum of two. This is what an engine gives that writes = "
          "in place of +=: what arrives later replaces what was there.",
          "the two nodes that are used twice, a and x. What do you do with their two shares?",
          tuple(lambda d, p=p, q=q: _mixed(d, p, q) for p in _JOINS for q in _JOINS)),
    Fault("without-2", "the square lacks its 2",
          "Your grad_b is {grad_b}, which is b. The slope of b**2 is 2 * b, so all that is below b is too small.",
          "the edge from s to b.",
          (lambda d: _totals(d, slopes=_no_two(d)),
           lambda d: _only(_C, grad_L=1.0, grad_s=1.0, grad_b=_values(d)["b"]))),
    Fault("own-value", "the two slots of the product are exchanged",
          "Your numbers for x and y have each other's slope. d(x * y)/dx is y, and d(x * y)/dy is x.",
          "the two edges below a.",
          (lambda d: _totals(d, slopes=_swapped(d)),)),
    Fault("multiplied", "shares that meet are multiplied",
          "Where two edges meet, your total is the product of the shares. *Along* one path the slopes are multiplied. "
          "Where paths *meet*, their shares are added.",
          "the first number that differs. Which two shares arrive at its node?",
          tuple(lambda d, p=p, q=q: _mixed(d, p, q) for p, q in ((_TIMES, _TIMES), (_PLUS, _TIMES)))),
    Fault("seed-value", "the pass begins with the value of L",
          "Your grad_L is {grad_L}, the value of L. The pass begins with dL/dL, and that is 1 whatever L is. All of "
          "your numbers are the right ones times the value of L.",
          "the very first number, at L.",
          (lambda d: tuple(_values(d)["L"] * g for g in _totals(d)),)),
    Fault("value-at-L", "the value of L stands where its gradient is asked for",
          "Your grad_L is {grad_L}, the value of L. The gradient of a node says how fast L grows when this node grows. "
          "For L itself this does not depend on how large L is.",
          "L one larger: how much larger is L then?",
          (lambda d: _only(_C, grad_L=_values(d)["L"]),)),
)

# 01.d: three wrong sheets. In two of them an edge is lost, in one of them a slope is wrong.

_D = ("lost_1", "lost_2", "slope_3")
_SHEETS = (("La", "bx", "sb"), ("ba", "ax", "sb"), ("La", "ax", "ax"), ("ba", "bx", "ax"))
_OTHER = {"La": "ba", "ba": "La", "bx": "ax", "ax": "bx"}


def _deal_d(number):
    # Not the numbers of task c in the same round: the right totals are shown here.
    return _deal(number + 1), _SHEETS[number % len(_SHEETS)]


def _sheets(deal):
    numbers, (lost_1, lost_2, slope) = deal
    wrong = _no_two(numbers) if slope == "sb" else {"ax": numbers[0]}
    return {"right": _totals(numbers), "sheet 1": _totals(numbers, lost=(lost_1,)),
            "sheet 2": _totals(numbers, lost=(lost_2,)), "sheet 3": _totals(numbers, slopes=wrong)}


def _given_d(deal) -> str:
    rows = [("gradient of", *_NODES), *((name, *map(show_number, row)) for name, row in _sheets(deal).items())]
    lines = ["    " + row[0].ljust(12) + "".join(cell.rjust(7) for cell in row[1:]) for row in rows]
    return f"{_at(deal[0])}, and the same graph. One mistake in each sheet.\n" + "\n".join(lines)


def _how_d(deal):
    first = "read the sheet from left to right. At the first number that is wrong, look at how much is missing"
    return (first, first, "read the sheet from left to right. The wrong slope is on an edge to the first wrong number")


def _row(**answers):
    return lambda deal: tuple(answers.get(name) for name in _D)


_FAULTS_D = (
    Fault("sheets-mixed", "sheets 1 and 2 are exchanged",
          "Both edges are right, but each belongs to the other sheet. In sheet 1 the number of a is wrong, in sheet 2 "
          "it is right.",
          "the number of a in both sheets.",
          (lambda d: (d[1][1], d[1][0], None),)),
    Fault("arrived", "the edge whose share is there is named, not the one whose share is missing",
          "Two edges arrive at the node that is wrong first. What you named in {first} is the edge whose share is "
          "still there. The total lacks the *other* share.",
          "right number minus number in the sheet. Which edge carries this difference?",
          (lambda d: (_OTHER[d[1][0]], None, None), lambda d: (None, _OTHER[d[1][1]], None))),
    Fault("too-low", "the edge named for sheet 1 is below the first wrong number",
          "You named {lost_1}. In sheet 1 the number of a is wrong already, and what happens below a cannot change it. "
          "x and y are wrong only because a is.",
          "the edges that arrive at a.",
          tuple(_row(lost_1=e) for e in ("ax", "ay", "bx"))),
    Fault("too-high", "the edge named for sheet 1 is above a number that is right",
          "You named {lost_1}. If that edge were lost, the number of b would be wrong too, and in sheet 1 it is right.",
          "the first number that is wrong, from the left. Only edges that arrive at this node are suspects.",
          tuple(_row(lost_1=e) for e in ("Ls", "sb"))),
    Fault("elsewhere", "the edge named for sheet 2 does not arrive at x",
          "You named {lost_2}. In sheet 2 only the number of x is wrong. A lost edge makes the node wrong at which it "
          "arrives.",
          "the two edges that arrive at x.",
          tuple(_row(lost_2=e) for e in ("Ls", "La", "sb", "ba", "ay"))),
    Fault("slope-elsewhere", "the edge named for sheet 3 cannot make the first wrong number",
          "You named {slope_3}. No share is missing in sheet 3, but one is wrong. The wrong slope is on an edge that "
          "arrives at the *first* number that is wrong, and it is no edge of a sum: there the slope is 1.",
          "sheet 3 from left to right, up to the first number that differs from the right one.",
          tuple(lambda d, e=e: (None, None, e if e != d[1][2] else "-") for e in _EDGES)),
)


def _ends(answer) -> str:
    """The two ends that are named by "La", "LA", "L -> a", "a, L" or ("L", "a"), in this order; "" for none."""
    if isinstance(answer, (tuple, list)) and all(isinstance(end, str) for end in answer):
        text = " ".join(answer)
    elif isinstance(answer, str):
        text = answer
    else:
        return ""
    return re.sub("share|slope|edge|from|to|and|[^a-z]", "", text.lower()).replace("l", "L")


def _edge(answer):
    """The edge between the two ends that are named, whichever is first; the answer itself when there is none."""
    ends = _ends(answer)
    return next((edge for edge in _EDGES if ends in (edge, edge[::-1])), answer)


def _with_edges(task):
    """The task with edges understood however they are written, and refused when they are none."""

    def judge(attempt):
        answers = tuple(map(_edge, attempt.answers))
        for name, answer in zip(_D, answers):
            if not blank(answer) and answer not in _EDGES:
                edges = ", ".join(f'"{e}"' for e in _EDGES)
                return attempt.wrong([f"`{name}` is {safe_repr(answer)}, which is no edge of this graph."],
                                     look=f"The edges are {edges}: the result first, then its input.")
        result = task.judge(replace(attempt, answers=answers))
        turned = [said for said in attempt.answers if _ends(said) not in _EDGES]
        if result and turned:
            said, edge = safe_repr(turned[0]), _edge(turned[0])
            result.body.append(f"You wrote {said}. The name of an edge begins with its result: `{edge}`.")
        return result

    return replace(task, judge=judge)


_PICTURE = ("    L --Ls--> s --sb--> b --ba--> a --ax--> x\n"
            "    L ------------La------------> a --ay--> y\n"
            "                        b --------bx------> x")

TASKS = (
    by_hand("01.a", "values and local slopes, by hand", _A, deal=_deal, given=_given, right=_right_a, how=_how_a,
            faults=_FAULTS_A, hints=(
                "First the four values, from the inputs to L. Then the slopes, one edge at a time. While you look at "
                "one slot, cover the other slot with your hand: it is a fixed number now.",
                "Three kinds of operations are in this graph:\n\n"
                "    operation          local slope of a slot\n"
                "    a sum              1\n"
                "    a product          the value in the other slot\n"
                "    a square, of b     ? (the rule for the derivative of a power)",
                "Fill in the numbers that `given` printed:\n\n"
                "    value_a = (number of x) * (number of y)\n"
                "    value_b = value_a + ...\n"
                "    value_s = ...\n"
                "    value_L = ...\n"
                "    slope_sb = ...      # contains b\n"
                "    slope_bx = ...      # a sum\n"
                "    slope_ax = ...      # a product: what is in the other slot?\n"
                "    slope_ay = ..."),
            good="The values go upwards, from the inputs to L. A local slope belongs to one slot, with everything else "
                 "held still."),
    by_hand("01.b", "one share for each edge, by hand", _B, deal=_deal, given=_given, right=lambda d: _shares(d),
            how=_how_b, faults=_FAULTS_B, hints=(
                "Begin at L with 1 and go down. Two edges arrive at a. Do not go on from a before you have added both "
                "shares.",
                "The edges. Each arrow goes from a result to one of its inputs:\n\n" + _PICTURE +
                "\n\nEach arrow carries (gradient of the node it starts from) times (local slope).",
                "From the top:\n\n"
                "    share_Ls, share_La = ...          # gradient of L is 1\n"
                "    share_sb = (gradient of s) * (slope of the square)\n"
                "    share_ba, share_bx = ...          # a sum sends on what it has\n"
                "    gradient of a = ... + ...\n"
                "    share_ax = (gradient of a) * ...\n"
                "    share_ay = (gradient of a) * ..."),
            good="Seven edges, seven shares. The two shares at a had to be added before a could send."),
    by_hand("01.c", "the totals, by hand", _C, deal=_deal, given=_given, right=lambda d: _totals(d), how=_how_c,
            faults=_FAULTS_C, hints=(
                "Every node has one number: the sum of the shares on all edges that arrive at it. At most nodes that "
                "is one share. At which nodes is it more than one?",
                "The edges again. Count the arrows that arrive at each node:\n\n" + _PICTURE,
                "One sum for each node:\n\n"
                "    grad_L = 1\n"
                "    grad_s = share_Ls\n"
                "    grad_b = share_sb\n"
                "    grad_a = ... + ...\n"
                "    grad_x = ... + ...\n"
                "    grad_y = ..."),
            good="The gradient of a node is the sum of the shares that arrive: two at a, two at x, one elsewhere."),
    _with_edges(by_hand(
        "01.d", "which edge is wrong?", _D, deal=_deal_d, given=_given_d, right=lambda d: d[1], how=_how_d,
        faults=_FAULTS_D, hints=(
            "The columns stand in the order of the backward pass, L first. In each sheet, find the first number from "
            "the left that differs from the right one. All that is wrong further down follows from it.",
            "The edges. Which of them arrive at the first wrong node of a sheet?\n\n" + _PICTURE,
            "For each sheet:\n\n"
            "    the first wrong node          ...\n"
            "    right number - wrong number   ...\n"
            "    the edges that arrive there   ...\n"
            "    their shares                  ...      # whose share is the difference?"),
        good="A wrong engine leaves a trace: the first wrong number says where, and the difference says which edge.")),
)
