"""Checks of exercise 18, concept questions: each in two wordings, and each wrong choice is one misunderstanding.

The letters change each time a question comes back, so that the letter of an earlier day is no answer. Wrong answers as
a learner would type them, each with the fault it must be given, are in wrong_answers/18.txt.
"""

from autodiff.course.forms import Asked, question
from autodiff.course.judge import Fault

_LETTERS = "abcde"


def _ask(id, title, wordings, faults, hints, good):
    """A question: `wordings` are pairs of a text and its choices, by fault or "right", in the order of their letters.

    After the last wording the first comes again, with its choices moved on until the right one has a new letter.
    """
    asked, letters, used = [], [], set()
    for text, choices in (*wordings, *wordings):
        order = list(choices)
        while _LETTERS[order.index("right")] in used:
            order = [*order[1:], order[0]]
        by = dict(zip(order, _LETTERS))
        used.add(by["right"])
        letters.append(by)
        asked.append(Asked(text, {letter: choices[key] for key, letter in by.items()}, by["right"]))
    named = [Fault(fault, *words, tuple(by[fault] for by in letters)) for fault, words in faults.items()]
    return question(id, title, asked, faults=named, hints=hints, good=good, name=f"choice_{id[-1]}")


_SHARED = _ask(
    "18.a", "why shares are added", [
        ("A node x is used in two places. The shares 30 and 12 arrive at it. Why is its gradient 42?", {
            "storage": "x is stored twice, once for each use, and each copy has a gradient of its own.",
            "mechanism": "The engine goes along one path after the other, and the second must not erase the first.",
            "right": "A small step of x changes the result along both paths, and small changes add up.",
            "convention": "It is a convention. The mean, 21, would do as well, as long as all engines agree.",
            "depends": "x goes into two sums. If it went into two products, the shares would be multiplied."}),
        ("The same weight w is used in four layers that follow one another. Four shares arrive at it.\n"
         "Somebody wants to give it their mean, because \"it is only one weight\". What is right?", {
             "depends": "The product: layers that follow one another multiply, so the shares do too.",
             "convention": "Sum or mean, both are right. It is a matter of convention, like a choice at a kink.",
             "mechanism": "The sum, because the engine visits the layers in turn and must not erase what is there.",
             "storage": "The mean, because w is stored only once and can hold no more than one share.",
             "right": "The sum: when w moves, all four uses move at once, and to first order their effects add."})],
    {
        "storage": ("memory is taken for the reason",
                    "How often a number is stored plays no part. It is one node with several edges, and each edge is a "
                    "way in which a step of this node acts on the result. The sum over these ways is a fact about the "
                    "function, in any engine and on paper.",
                    "a function like x * y + x, without any engine. How much does it change when x moves a little?"),
        "mechanism": ("how an engine adds is taken for the reason why",
                      "It is true that an engine which erases gets a wrong number. But that does not say why the sum "
                      "is the *right* number. Somebody could ask: why not keep the larger share?",
                      "the function itself. Move the node by a small h, and follow the change along each path."),
        "convention": ("a fact is taken for a convention",
                       "You can measure the slope: move the number a little and look at the result. It comes out as "
                       "the sum, whatever the engines agree on. There is a choice only where there is no slope, at a "
                       "kink.",
                       "the slope measured by two calls of the function, as in lesson 01."),
        "depends": ("slopes along a path and shares at a node are mixed up",
                    "*Along* a path, slopes are multiplied. *At* a node, the shares of several paths are added. Each "
                    "share has its multiplications behind it already, so what kind of operation it came through plays "
                    "no part.",
                    "u * u: two slots of a product, and the two shares are added."),
    }, (
        "Forget the engine. Take a function that uses one number more than once, and move it by a small step h.",
        ("A step h at x goes both ways:\n\n"
         "        x + h\n"
         "       /     \\\n"
         "   30 h       12 h      what each way does to the result\n"
         "       \\     /\n"
         "        result          moves by ?",
         "A step h of w happens in all four layers at once:\n\n"
         "    layer        1        2        3        4\n"
         "    its weight   w + h    w + h    w + h    w + h\n"
         "    its effect   g1 h     g2 h     g3 h     g4 h      g1 to g4: the four shares\n\n"
         "By how much does the result move?"),
        ("Complete: \"When x moves by h, the result moves by ... along the first way and by ... along the second, so "
         "together by ... The gradient is this divided by h.\"",
         "Complete: \"When w moves by h, the result moves by ... because of layer 1, by ... because of layer 2, and so "
         "on, so together by ... The gradient is this divided by h.\"")),
    "A step h of the node acts along every path at once. To first order the effects do not disturb each other, so they "
    "add up: the gradient is the sum of the shares. It is the chain rule for a function of several arguments, and not "
    "a choice of the engine.")

_PROGRAM = _ask(
    "18.b", "what a graph remembers of a program", [
        ("L = f(ad.Var(2.0)) was computed. What does the graph of L hold?\n\n"
         "    def f(x):\n"
         "        y = x\n"
         "        for _ in range(3):\n"
         "            y = y * x\n"
         "        return y if y > 0 else -y\n", {
             "program": "The loop, with its three turns, and the decision.",
             "right": "Three multiplications, and nothing else.",
             "comparison": "Three multiplications, and the comparison y > 0.",
             "both": "Three multiplications and the minus sign, which is switched off.",
             "once": "One multiplication, with a note that it ran three times."}),
        ("x, u, v are Vars with the values 5, 3 and -2. What does the graph of f(x, u, v) hold?\n\n"
         "    def f(x, u, v):\n"
         "        y = x\n"
         "        for w in (u, v):\n"
         "            y = y * w if w > 0 else y - w\n"
         "        return y\n", {
             "comparison": "One multiplication, one subtraction, and two comparisons.",
             "once": "One operation for the body of the loop, used twice.",
             "both": "Two multiplications and two subtractions. One of each is switched off.",
             "right": "One multiplication and one subtraction.",
             "program": "A loop over u and v, with a decision in it."})],
    {
        "program": ("the program is taken for the graph",
                    "Loops and decisions are Python's business. They decide which operations run; the engine notes "
                    "only the operations that did run, one by one. That is why all of Python may be used.",
                    "lesson 02, \"Operations that ran\". Draw the result and look for the loop."),
        "comparison": ("a comparison is taken for a recorded operation",
                       "A comparison gives Python a plain True or False. It has been answered, and it is not recorded: "
                       "no gradient could go through it, because its answer does not move with a small step.",
                       "the type of `x > 1` when x is a Var."),
        "both": ("the branch that did not run is looked for in the graph",
                 "What did not run was never computed, and it left nothing behind, not even switched off. At other "
                 "values the other branch runs, and then another graph is recorded.",
                 "how many boxes the drawing has for a positive and for a negative value."),
        "once": ("repeated operations are taken for one node",
                 "Each time an operation runs, it makes a new result, and each result has a node of its own. The line "
                 "of code is the same; the nodes are not.",
                 "the values: y is another number after each turn. One node has one value."),
    }, (
        "Follow the call with a pencil. Each time an operation gets a tensor and returns a new tensor, write down one "
        "box. Write down nothing else.",
        "For a call that multiplies once and then takes the branch with the minus:\n\n"
        "    x ---> *  ---> -  ---> L\n"
        "    x ---/\n\n"
        "Where is the `if` in this picture?",
        "Complete: \"The engine records ... that ran. A loop leaves ... , a decision leaves ... , and a comparison is "
        "...\""),
    "The engine records the operations that ran, not the program. A loop leaves its operations, one node for each "
    "turn; a decision leaves the branch that was taken; a comparison gives a plain True or False and leaves nothing.")

_NUMBERS = _ask(
    "18.c", "what goes through a plain number", [
        ("The value of y is 8. What is the gradient of x?\n\n"
         "    x = ad.Var(2.0)\n"
         "    y = x * x * x.item()\n", {
            "right": "8: the third factor is the number 2, a constant.",
            "refused": "None: the line is an error, because x.item() on a Var is refused.",
            "same-value": "12: y has the value of x**3, so it has its gradient, 3 * x**2.",
            "dropped": "4: a plain number has no box, so it does not count, and y is x * x.",
            "all-lost": "None: with .item() the history of y is lost."}),
        ("The value of y is 36. What is the gradient of x?\n\n"
         "    x = ad.Var(2.0)\n"
         "    h = 3 * x\n"
         "    y = h * h.data\n", {
            "dropped": "3: h.data is no node, so it does not count, and y is h.",
            "same-value": "36: y has the value of h**2 = 9 * x**2, so it has its gradient, 18 * x.",
            "all-lost": "None: with .data the history of y is lost.",
            "refused": "None: the line is an error, because h.data on a tracked tensor is refused.",
            "right": "18: the second factor is the number 6, a constant."})],
    {
        "same-value": ("equal values are taken for equal gradients",
                       "Two expressions with the same value can have different histories. What went through .item() or "
                       ".data came back as a plain number, and a number does not move when x moves.",
                       "the edges of y. Through which of its factors can a step of x reach it?"),
        "refused": ("an explicit conversion is taken for a silent one",
                    "Refused is what would happen behind your back: float(x), math.exp(x), np.asarray(x). Who writes "
                    ".item() or .data has asked for the plain value, and gets it.",
                    "the table in lesson 02 under \"The message names what was lost\"."),
        "dropped": ("a constant factor is left out",
                    "A number without a box still takes part: it is written into the operation. As a constant factor "
                    "it multiplies the slope. Only its own gradient is absent.",
                    "the slope of 5 * x. The 5 has no box either."),
        "all-lost": ("one lost edge is taken for a lost history",
                     "The other factor is still a tracked tensor, and one tracked input is enough for the operation to "
                     "be recorded. Only what goes through the plain number is lost.",
                     "whether y.tracked is True, and which of its inputs is tracked."),
    }, (
        "Write the number that .item() or .data gives in place of the call. Then differentiate the line as it stands.",
        "The rule of lesson 02:\n\n"
        "    an op is recorded  <=>  at least one input is tracked\n\n"
        "    input              in the graph      moves with x\n"
        "    tensor from x      yes               yes\n"
        "    plain number       inside the op     ?",
        "Complete: \"y = (something made of x) * (the number ...). The number does not move, so the gradient is the "
        "slope of the first part times ...\""),
    "A plain number has no history. It takes part as a constant: it multiplies the slope, and nothing flows through "
    "it. So the value is right, a part of the gradient is missing, and no test on values can find it.")

_DIFFERENCES = _ask(
    "18.d", "autodiff and finite differences", [
        ("What is the difference between the gradient from reverse mode and the one from central differences?", {
            "step": "Both are differences. Reverse mode takes a step so small that its error cannot be seen.",
            "per-input": "Reverse mode is exact up to rounding, but it needs one backward pass for each input.",
            "symbolic": "Reverse mode first derives a formula for the whole program; differences use numbers only.",
            "right": "Reverse mode chains exact local derivatives, in one pass for all inputs. Differences have a "
                     "step.",
            "limit": "None in exactness: with a small enough step, differences are exact. Reverse mode is just "
                     "faster."}),
        ("A loss depends on 1000 weights. You want all 1000 slopes. Which sentence is right?", {
            "right": "Differences: 2000 evaluations, with an error from the step. Reverse mode: one pass, no step.",
            "limit": "Differences with step 1e-15 give all digits; reverse mode saves only time.",
            "step": "Reverse mode moves all 1000 weights at once by a tiny step, so one pass is enough.",
            "per-input": "Differences: 2000 evaluations. Reverse mode: 1000 backward passes, each of them exact.",
            "symbolic": "Reverse mode writes down 1000 formulas and puts the numbers in; that is why it is exact."})],
    {
        "step": ("reverse mode is taken for a difference",
                 "There is no step anywhere in reverse mode. Each operation has a rule, such as g * b for a product, "
                 "and this is its derivative itself and no measurement.",
                 "the table of rules in lesson 04. Where would a step be in it?"),
        "per-input": ("reverse mode is counted like forward mode",
                      "One backward pass from *one output* reaches all inputs: the shares of a node are added up once, "
                      "and handed on to everything below. It is forward mode, and differences, that cost one run for "
                      "each input.",
                      "lesson 01: the gradients of x and y came from a single pass."),
        "symbolic": ("automatic is taken for symbolic",
                     "No formula for the whole program is ever written down. Reverse mode works with numbers: at each "
                     "node it multiplies the gradient that arrived by local derivatives at the recorded values.",
                     "what the store holds while you step through a backward pass: numbers."),
        "limit": ("smaller is taken for better",
                 "The difference of two nearly equal numbers loses digits, and dividing by a small step makes that "
                 "error large. There is a best step, and even there about a third of the digits are gone.",
                 "what (f(x + h) - f(x - h)) becomes when h is so small that x + h is x."),
    }, (
        "Two things to compare: where an error comes from, and how many runs are needed when there are many inputs.",
        "                         has a step   runs for n inputs\n"
        "    central differences  yes          2 n evaluations\n"
        "    reverse mode         ?            ?",
        "Complete: \"Reverse mode uses the ... of each operation, so it has no ... error. One pass gives the gradient "
        "of one ... for all ...\""),
    "Reverse mode chains the exact local derivative of each operation at the values that were computed. There is no "
    "step, only rounding, and one pass from a scalar serves all inputs. Central differences cost two evaluations for "
    "each input, and every step has an error: cut-off terms when it is large, rounding when it is small. They need no "
    "rules, and that makes them the right tool to check rules.")

_CYCLES = _ask(
    "18.e", "which life-cycle adds", [
        ("x*x at x = 5 has the gradient 10. Three rounds: forward anew, then backward. Nothing is cleared.\n"
         "What do candle, pytorch, burn and reset show for x after the third round?", {
             "error": "10, error, error, 10",
             "new-graph": "10, 10, 10, 10",
             "on-node": "10, 30, 10, 30",
             "right": "10, 30, 10, 10",
             "all-add": "30, 30, 30, 30"}),
        ("L = (x*y + x)**2 gives x the gradient 54. Forward and backward, and then both once more.\n"
         "Nothing is cleared. In which of the four life-cycles does x show 108?", {
             "on-node": "In pytorch and reset: both keep the gradient on the node.",
             "all-add": "In all four: shares that arrive at one node are added.",
             "right": "In pytorch alone. candle and burn hand out a new store; reset begins with zeros.",
             "error": "In none: pytorch and burn refuse a second backward pass.",
             "new-graph": "In none: a new forward pass makes a new graph, and with it new gradients."})],
    {
        "error": ("a new graph is taken for the same graph",
                  "Refused is a second backward pass through the *same* graph, whose values were freed. Here the "
                  "forward pass ran again, so there is a new graph with all its values.",
                  "lesson 07: two things can be kept or lost, the graph and the gradients. Which one is new here?"),
        "new-graph": ("the gradients are taken for a part of the graph",
                      "The graph is new, and the leaf x is the same. In PyTorch the gradient is kept on the leaf, so "
                      "it is still there when the next graph brings its shares.",
                      "where each system keeps a gradient: on the leaf, or in a store that it returns."),
        "on-node": ("keeping on the node is taken for adding",
                    "reset does keep its gradients on the nodes. But each of its backward passes first sets every node "
                    "that it reaches to zero. That is what its name says.",
                    "the first thing that a backward pass of reset does."),
        "all-add": ("adding within a pass is taken for adding between passes",
                    "Within *one* pass all systems add the shares that meet at a node. Between two passes they differ: "
                    "a new store begins empty, and reset begins with zeros.",
                    "what happens to the number of the first pass when the second one begins."),
    }, (
        "Ask for each system: where is the gradient after the first round? And what does the second backward pass do "
        "with it?",
        "              kept                  a new backward pass\n"
        "    candle    in a returned store   makes a new store\n"
        "    pytorch   on the leaf           ?\n"
        "    burn      in a returned store   makes a new store\n"
        "    reset     on the nodes          ?",
        "Complete: \"After a new forward pass the graph is ... The old gradient of x is still there in ... and in ... "
        "The first of them ..., the second ...\""),
    "Only PyTorch adds from one pass to the next: the gradient stays on the leaf until it is cleared. candle and burn "
    "return a new store each time. reset keeps gradients on the nodes and sets those it reaches to zero before it "
    "adds. A rebuilt forward pass is no second pass through one graph, so nobody refuses.")

_DOUBLED = _ask(
    "18.f", "doubled after a rebuilt forward", [
        ("PyTorch. Forward and backward give w the gradient 4. You run both once more, with the same weights and\n"
         "data, and w shows 8. The loss is the same both times. Where do you look first?", {
             "retain": "At retain_graph: the first graph was kept, and it is walked again.",
             "term": "At the loss: one term may be added twice.",
             "right": "At the clear between the two rounds: is zero_grad called?",
             "detach": "At a detach that is missing: the gradient flows on into the first round.",
             "rule": "At the rules: one of them has a factor 2 too much."}),
        ("A training loop in PyTorch. For a test the learning rate is 0, so the weights do not move. The loss is the\n"
         "same in each round, and w.grad is 4, 8, 12, ... Where do you look first?", {
             "rule": "At the rules: a factor in one of them grows from round to round.",
             "right": "At the end of a round: nothing takes away the gradients of the rounds before.",
             "detach": "At the weights: without a detach, round 3 sends gradients into rounds 1 and 2.",
             "retain": "At the graphs: those of earlier rounds are still alive, and backward walks them all.",
             "term": "At the loss: in each round one more copy of a term is added."})],
    {
        "retain": ("kept graphs are taken for kept gradients",
                   "backward walks the graph of the loss that you call it on, and no other, however many are still "
                   "alive. What was kept here is the *gradient*, on the leaf.",
                   "lesson 07: clearing is about gradients, retaining is about graphs."),
        "term": ("the loss is not looked at",
                 "A term that is in the loss twice makes the loss larger, and it doubles the gradient in the first "
                 "round as well. Here the loss stays the same while the gradient grows.",
                 "the value of the loss in both rounds."),
        "detach": ("a path between rounds is looked for",
                   "Each round makes its own graph from the leaves. Rounds are joined only if a *result* of one is "
                   "used in the next. Then PyTorch refuses, or the graph grows; the gradient does not become exactly "
                   "twice as large.",
                   "the factor: exactly 2 after two rounds. What is added each time is one whole, right gradient."),
        "rule": ("a rule is suspected that was right a moment ago",
                 "A wrong rule is wrong in every round, and by the same factor. Here the number grows, although "
                 "function, weights and data are the same.",
                 "what differs between two rounds. The function does not."),
    }, (
        "The same function at the same weights has the same gradient. So ask not what is wrong with the function, but "
        "what was there before.",
        "    round   new gradient   shown\n"
        "    1       4              4\n"
        "    2       4              8      = 4 + ?\n\n"
        "Where was the first 4 between the rounds?",
        "Complete: \"The loss is the same, so the function is ... The first round was right, so the rules are ... What "
        "is left is the place where the gradient is kept: ...\""),
    "First look at the clear. The loss is the same, so no term is in it twice; the first round was right, so the rules "
    "are right. What is added is exactly one more right gradient: the old one stayed on the leaf, as PyTorch's "
    "life-cycle says. The test: take the gradient once more in a new store, or clear and run again.")

_KINK = _ask(
    "18.g", "gradcheck fails at a kink", [
        ("Somebody checks relu at x = 0 with central differences. The rule says 0, the difference says 0.5, and the\n"
         "check fails. Is the gradient wrong?", {
             "right": "No. There is no derivative at 0, and 0 lies between the slopes 0 and 1. Check beside 0.",
             "measured": "Yes. What was measured is the slope, so the rule must return 0.5 there.",
             "anything": "No. Where there is no derivative, every number is right.",
             "refuse": "Yes. Where there is no derivative, an engine must return NaN or stop.",
             "smaller": "No. The step is too large; with a smaller one the difference becomes 0."}),
        ("Your op abs returns the slope 1 at x = 0. A plain check with central differences measures 0 and fails.\n"
         "What do you do?", {
             "smaller": "Take a smaller step, until the difference becomes 1.",
             "refuse": "Return NaN at 0: a number there is a mistake.",
             "measured": "Change the rule to 0 there, because that is what was measured.",
             "right": "Keep it: 1 is one of the valid values, from -1 to 1. Then check at other points.",
             "anything": "Keep it, and leave out the check: at a kink nothing can be wrong."})],
    {
        "measured": ("a central difference is trusted across a kink",
                     "The central difference takes one point on each side and returns the mean of two slopes. No piece "
                     "of the function needs to have this slope. At a kink it measures the mean, and not a derivative.",
                     "the slope on the left and the slope on the right, each on its own."),
        "anything": ("valid values are taken for all values",
                     "There is a choice, and it has limits: only numbers between the slope on the left and the slope "
                     "on the right are valid. A 3 or a -7 would be wrong, and a check that knows kinks says so.",
                     "the slope on the left and the slope on the right. What lies between them?"),
        "refuse": ("no derivative is taken for no valid answer",
                   "At a kink every number between the slope on the left and the one on the right is a subgradient, "
                   "and training works with any of them. An engine returns one, by a convention.",
                   "lesson 09: what all libraries return for relu and abs at 0."),
        "smaller": ("a smaller step is hoped to help",
                    "For these functions the difference at 0 is the same for every step: half of the way lies on each "
                    "side of the kink. A step study shows a plateau. It tells you that no step will do.",
                    "(f(h) - f(-h)) / (2 * h), worked out for h = 1 and for h = 0.001."),
    }, (
        "Work out the slope to the left of 0 and the slope to the right of 0, each on its own. Then the central "
        "difference.",
        "    relu                     abs\n\n"
        "          /                  \\     /\n"
        "         /                    \\   /\n"
        "    ____/                      \\ /\n\n"
        "    slopes 0 and 1           slopes -1 and 1\n"
        "    central difference ?     central difference ?",
        "Complete: \"On the left the slope is ..., on the right it is ... Valid are the numbers ... A central "
        "difference gives ..., because it uses one point on ...\""),
    "The rule is not wrong. At a kink there is no derivative; every number between the slopes on both sides is a valid "
    "subgradient, and an engine chooses one. A central difference measures the mean of the two slopes, at any step. So "
    "the failed check says only that the point is a kink: check again at points beside it. `ad.gradcheck` looks at "
    "both sides and names the interval.")

_NAN = _ask(
    "18.h", "finite value, NaN gradient", [
        ("The loss is 0.37, and so far every value that you printed is finite. The gradient of one weight is NaN.\n"
         "What do you do first?", {
             "rule": "Look for a wrong rule: finite values and a NaN gradient mean that some derivative is wrong.",
             "hide": "Put np.nan_to_num around the gradient, so that training goes on.",
             "mask": "Put np.where around the loss, which lets only finite values through.",
             "right": "Run backward in ad.detect_nonfinite. It names the op; then look at the inputs of this op.",
             "smaller-step": "Make the learning rate smaller."}),
        ("All values of y are finite. One gradient is NaN, and ad.detect_nonfinite names log. How do you go on?\n\n"
         "    x = ad.Var([2.0, 0.0])\n"
         "    y = np.where(x > 0, np.log(x), 0.0)\n", {
             "mask": "Put one more np.where around y.",
             "smaller-step": "Make the learning rate smaller, so that x never comes near 0.",
             "right": "Give log a harmless input where x is not positive, with a where inside, and choose as before.",
             "rule": "Correct the rule of log: it must not return NaN.",
             "hide": "Replace each NaN in the gradient by 0 when the pass is done."})],
    {
        "rule": ("a right rule is suspected",
                 "The rules do what arithmetic says: log, for example, has an infinite slope at 0, and 0 times "
                 "infinity is NaN. The NaN is an honest message about the *point* at which a right rule was used.",
                 "the inputs of the op that made the first NaN."),
        "hide": ("the message is removed, not the cause",
                 "A 0 in place of NaN looks healthy and may be far from the right gradient. And one NaN spreads: what "
                 "it was added to is lost, also where the right share was a good number.",
                 "the first place where the NaN arises, before it is added to anything."),
        "mask": ("a mask on the output is expected to help",
                 "A where around the result protects the value. Backward it sends a 0 into the branch that was not "
                 "chosen, and 0 times an infinite slope is NaN again. The mask has to stand *before* the dangerous "
                 "function.",
                 "lesson 12, \"NaN behind a mask\": where the inner where stands."),
        "smaller-step": ("the step size is suspected",
                         "This gradient was computed at the present weights, before any step. The learning rate has no "
                         "part in it.",
                         "the backward pass of this one loss."),
    }, (
        "A finite value does not mean that every number inside is finite, nor that every slope is. Look for the first "
        "place on the way *back* where something is not.",
        ("    forward    w ---> op ---> op ---> op ---> loss    every value that was printed is finite\n"
         "    backward   NaN <-- op <--- op <--- op <--- 1       behind which op is the first NaN?",
         "    forward    x ---> log ---> where ---> y       -inf is masked away\n"
         "    backward   ?  <--- log <--- where <--- 1      0 times an infinite slope"),
        "Complete: \"ad.detect_nonfinite names the first ... that made a NaN. Its ... show why: a branch that was not "
        "..., a 0 times ..., or an overflow. The cure changes the ... of this op.\""),
    "Find the first op that makes a NaN, on the way back: `ad.detect_nonfinite` names it. Then look at its inputs. The "
    "usual cause is a branch that a mask did not choose: the mask sends 0 backward, and 0 times an infinite slope is "
    "NaN. The cure makes the *input* of the dangerous function harmless where it is not needed (a double where), or "
    "takes a stable function.")

TASKS = (_SHARED, _PROGRAM, _NUMBERS, _DIFFERENCES, _CYCLES, _DOUBLED, _KINK, _NAN)
