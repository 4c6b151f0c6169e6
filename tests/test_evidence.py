"""The rules behind exercises 10 and 16: what is called wrong can be shown, what is called right is never refused."""

import random

import numpy as np
import pytest

import autodiff as ad
from autodiff.course import checks_10, checks_16, evidence
from autodiff.course.judge import Attempt
from autodiff.course.result import PASSED, UNFINISHED, WRONG

VECTORS = [[0.0, 0.0], [1.0, 3.0, 3.0, 1.0], [-1.0, 0.5], [2.0, 0.0], [2.0, 3.0, 0.0, 0.0], [1000.0, -1000.0],
           [1e-7, -1e-7], [0.3, 0.7, -0.2, 1.6], [1.0, 0.0]]
INDEXED = [([0.0, 1.0, 2.0], [0, 2], [5.0, 6.0]), ([0.0, 1.0, 2.0], [2, 2], [5.0, 6.0])]
PAIRS = [([1.0, 2.0], [1.0, -3.0]), ([0.0, 0.5], [2.0, 2.0])]
POWERS = [([0.0, 2.0], 0), ([-1.0, 0.0], 2), ([0.0, 3.0], 1)]
RULES = [*((rule, False) for rule in checks_16._POOL_A + checks_16._POOL_B),
         *((rule, True) for rule in checks_16._POOL_C)]


def inputs_for(rule):
    if "src" in rule.operands:
        return INDEXED
    if rule.name.startswith("take"):
        return [(x, index) for x, index, _ in INDEXED]
    if rule.name.startswith("power"):
        return POWERS
    if len(rule.operands) == 2:
        return PAIRS
    return [x for x in VECTORS if len(x) % 2 == 0] if rule.name.startswith("max_pool") else VECTORS


@pytest.mark.parametrize("rule, second", RULES, ids=[f"{r.name}-{r.seen}-{s}" for r, s in RULES])
def test_a_wrong_rule_can_be_shown_and_a_right_one_cannot(rule, second):
    check = ad.gradgradcheck if second else ad.gradcheck
    tried = [evidence._tried(check, "A", evidence.Rules([rule]), value) for value in inputs_for(rule)]
    assert not any(one.problem for one in tried)
    assert any(one.refused and one.right for one in tried) is rule.wrong
    hidden = any(not one.refused for one in tried)
    assert hidden or second or rule.name.startswith(("scatter", "max_pool")), "only these are wrong everywhere"


@pytest.mark.parametrize("rule", checks_16._POOL_C, ids=lambda rule: rule.name)
def test_the_first_derivative_is_right_in_the_rules_of_the_second_order(rule):
    assert ad.gradcheck(rule.op(), np.array([0.3, 0.7, 1.6]))
    if rule.name in ("prod(x)", "sinc(x)"):
        assert ad.gradcheck(rule.op(), np.array([2.0, 3.0, 0.0, 0.0]))


@pytest.mark.parametrize("task", [checks_10.TASKS[0], *checks_16.TASKS], ids=lambda task: task.id)
def test_every_round_deals_different_functions_with_some_wrong_rules(task):
    for number in range(20):
        rules = task.deal(number)
        assert list(rules) == list("ABCDEFG"[:len(rules)])
        assert len({rule.name for rule in rules.written.values()}) == len(rules)
        wrong = sum(rule.wrong for rule in rules.written.values())
        assert 2 <= wrong <= 4 and (wrong < len(rules) or task.id == "10.a")
        assert all(f"    {letter}  {rule.name}" in task.show(rules) for letter, rule in rules.written.items())


def test_every_faulty_op_passes_the_random_check_of_its_page():
    rng = np.random.default_rng(0)
    for number in range(4):
        for op in checks_10.TASKS[0].deal(number).values():
            assert ad.gradcheck(op, rng.uniform(0.5, 2, size=4))
    at, pair = np.random.default_rng(0).normal(size=4), tuple(np.random.default_rng(0).normal(size=(2, 2, 3)))
    for plan in [*checks_10._RIGHT_B.values(), *(op for fault in checks_10._FAULTS_B for op in fault.answers)]:
        op = plan(random.Random(1))
        assert ad.gradcheck(lambda x: op(x).sum(), at)
    for plan in [*checks_10._RIGHT_C.values(), *(op for fault in checks_10._FAULTS_C for op in fault.answers)]:
        op = plan(random.Random(1))
        assert ad.gradcheck(lambda a, b: op(a, b).sum(), pair)


def judged(answer, number=0):
    task = checks_16.TASKS[0]
    return task.judge(Attempt(task, (answer,), 1, [task.deal(k) for k in range(number + 1)]))


def test_inputs_may_have_any_form_and_letters_any_case():
    for zero in ([0, 0], (0.0, 0.0), np.zeros(2), ad.Var([0.0, 0.0]), np.zeros(2, np.float32)):
        assert judged({"b": zero, " D ": [3, 3], "F": np.float64(0)}).status == PASSED


@pytest.mark.parametrize("answer, says", [
    ({"K": 1.0}, "the letters are"), ({"B": "zero"}, "expected a number"), ({"B": [np.nan]}, "not finite"),
    ({"B": np.zeros(1000)}, "are enough"), ({"B": []}, ""), (True, "expected a dict"),
    ({"B": None}, "expected a number"), ({"B": [[1.0], [2.0, 3.0]]}, "expected a number"),
])
def test_an_answer_of_another_form_is_told_what_is_wanted(answer, says):
    result = judged(answer)
    assert result.status == WRONG and says in " ".join(result.text().split())


def test_three_dots_inside_are_not_finished():
    assert judged({"B": ...}).status == UNFINISHED


@pytest.mark.parametrize("value, shown", [
    ([1.0, 1.0000001], "[1.0, 1.0000001]"), ([0.1, 2.0], "[0.1, 2]"), (1 / 3, "0.3333333333333333"), ([], "[]")])
def test_an_input_is_shown_as_the_number_it_is(value, shown):
    (one,) = [evidence._tried(ad.gradcheck, "E", checks_16.TASKS[0].deal(0), value)]
    assert one.at == shown


def test_an_op_is_called_by_its_function_and_its_operands():
    op = checks_16.TASKS[0].deal(0)["B"]
    report = ad.gradcheck(op, np.zeros(2), raise_exception=False)
    assert op.__name__ == "norm(x)" and "by x[0]" in str(report) and "lambda" not in str(report)
