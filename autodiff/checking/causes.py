"""What is behind a disagreement: differences at many steps, the rules one by one, the usual causes."""

from __future__ import annotations

import inspect
import math
import warnings
from dataclasses import replace

import numpy as np

from ..backward import detect_nonfinite
from ..graph import PATH, Node
from ..recording import apply
from ..tensor import Var
from .functions import (
    First,
    Replay,
    Second,
    array_of,
    below_roots,
    flat_gradient,
    floating,
    forward_params,
    index_of,
    label_of,
    random_cotangent,
)
from .report import (
    DISCONNECTED,
    JUMP,
    KINK,
    MATCH,
    NOT_FINITE,
    NOT_MULTIPLIED,
    NOTHING,
    UNSUITED,
    WRONG_DTYPE,
    WRONG_SHAPE,
    WRONG_VALUE,
    ZERO,
    Entry,
    GradcheckReport,
    number,
    some,
)


class Objection:
    """Says what is wrong with a run, and looks for the cause."""

    def __init__(self, run):
        self.run = run
        self.tried = (0, 0)  # how many ops were checked by themselves, of how many

    def misfit_report(self, misfit) -> GradcheckReport:
        run = self.run
        found, kind = first_misfit(run.subject.roots, run.rng), misfit.verdict.split()[-1]
        node, i, got, expected = (found[0], found[1], found[3], found[4]) if found else (None, None, None, None)
        op = (
            f"{node._rule.name}, its partial for {_operand(node, i)}: {kind} {got}, expected {expected}"
            if found
            else None
        )
        if misfit.k is not None:
            v = run.given[misfit.k]
            headline = (
                f"The gradient of {run.names[misfit.k]} has {kind} {misfit.got}, and {run.names[misfit.k]} has "
                f"{v.shape if kind == 'shape' else v.dtype}."
            )
        else:
            headline = f"The backward pass fails, as the rule of {node._rule.name} returns {kind} {got} for {expected}."
        if kind == "shape":
            hint = (
                "a cotangent has its operand's shape: undo the broadcast (sum over the axes it added) or the reduction"
            )
        else:
            hint = (
                "a cotangent has its operand's dtype: a constant in the rule widens or narrows it; use Python numbers"
            )
        facts = ([("op", op)] if op else []) + [("hint", hint)]
        return run.result(misfit.verdict, headline=headline, op=op, hint=hint, facts=facts, **run.met())

    def not_finite(self) -> GradcheckReport:
        run = self.run
        k = next(k for k, rows in enumerate(run.rows) if not np.isfinite(rows).all())
        j, i = (int(n) for n in np.argwhere(~np.isfinite(run.rows[k]))[0])
        analytic, numeric, error, more = float(run.rows[k][j, i]), math.nan, math.inf, ""
        if isinstance(run.columns[k], range):
            found = run.study(k, i).judge(j, 0.0, run.settings.atol, run.settings.rtol, 1.0)
            if found.error < 1e-3 * max(1.0, abs(found.numeric)):
                numeric, error = found.numeric, found.error
            more = f" ({found.note})" if found.status == NOT_FINITE else ""
        says = (
            f"the numeric slope is {number(numeric)}" if math.isfinite(numeric) else "the numeric slope does not settle"
        )
        entry = Entry(run.row_name(j), run.names[k], index_of(i, run.given[k].shape), analytic, numeric, 0.0, error)
        count = sum(int((~np.isfinite(rows)).sum()) for rows in run.rows)
        total = sum(rows.size for rows in run.rows)
        op = None
        try:
            with detect_nonfinite():
                run.pull(run.row_cotangents(j))
        except FloatingPointError as problem:
            op = str(problem).split(" as the cotangent")[0].removeprefix("the rule of ")
        hint = None
        if self.masked(k, j):
            hint = (
                "0 times infinity: a branch that was not chosen still has an infinite slope. Keep its input away from "
                "there before the function (a second np.where), or use backward(strong_zero=True)"
            )
        facts = [("count", f"{count} of {total} entries are not finite")] + [("op", op)] * bool(op)
        facts += [("hint", hint)] * bool(hint) + run.base_facts() + [run.last_fact()]
        return run.result(
            NOT_FINITE,
            headline=f"The gradient of {entry.output} by {entry.place} is {analytic}, and {says}{more}.",
            worst=entry,
            wrong=count,
            checked=total,
            op=op,
            hint=hint,
            facts=facts,
            **run.met(),
        )

    def masked(self, k, j) -> bool:
        """Whether the gradient is finite once a cotangent of 0 contributes 0."""
        run = self.run
        pairs = [(y, c) for y, c in zip(run.ys, run.row_cotangents(j)) if isinstance(y, Node) and y._role == PATH]
        stores = [y.backward(c, wrt=run.variables, strong_zero=True) for y, c in pairs]
        grads = [store.get(run.variables[k]) for store in stores]
        return all(np.isfinite(g._array).all() for g in grads if g is not None)

    def ask_complex_step(self, flag, found) -> None:
        """Where differences can't judge, let the complex step do it, if the function takes complex numbers."""
        exact = self.complex_slope(flag)
        if exact is None:
            return
        allowed = self.run.entry(flag.k, flag.c, flag.j, found.analytic, exact, 0.0).allowed
        found.status = MATCH if abs(exact - found.analytic) <= allowed else WRONG_VALUE
        found.numeric, found.error = exact, 0.0
        found.note = "differences drown in rounding; judged by the complex step, which subtracts nothing"

    def unsure_report(self, unsure, checked) -> GradcheckReport:
        run = self.run
        flag, found = unsure[0]
        entry = run.entry(flag.k, flag.c, flag.j, found.analytic, found.numeric, found.error)
        where = f"{entry.output} by {entry.place}"
        steps = self.step_rows(flag, found)
        fate = "have no finite slope" if found.status == NOT_FINITE else "can't be judged"
        facts, hint = [("count", f"{len(unsure)} of {checked} entries {fate}; the others agree")], None
        if found.status == JUMP:
            verdict, headline = KINK, f"At {entry.place}, {found.note}: {entry.output} has no slope to compare."
            hint = "move the point away from the jump"
        elif found.status == NOT_FINITE:
            verdict, headline = NOT_FINITE, f"At {where}, {found.note}; the gradient says {number(entry.analytic)}."
            hint = "no finite number is the slope there, so none can be checked: move the point away from it"
        else:
            verdict = UNSUITED
            headline = (
                f"No step tells the slope of {where}: it comes out as {number(found.numeric)}, give or take "
                f"{found.error:.0e}; the gradient says {number(found.analytic)}."
            )
            value = float(run.z0[flag.j])
            hint = (
                f"the value, {value:.3g}, is so large beside its changes that they are lost in rounding: check the "
                "part that varies by itself, or take a point of moderate size"
            )
            if not math.isfinite(found.numeric):
                hint = "the function is not finite around this point: move it inside the domain"
            facts.append(("steps", self.step_words(steps, "rounding and curvature meet before the slope settles")))
        facts += [("hint", hint)] * bool(hint) + run.base_facts() + [run.last_fact()]
        return run.result(
            verdict,
            headline=headline,
            worst=entry,
            checked=checked,
            wrong=0,
            hint=hint,
            steps=steps,
            facts=facts,
            **run.met(),
        )

    def wrong_report(self, wrong, kinks, count, checked) -> GradcheckReport:
        run = self.run
        flag, found = wrong[0]
        k, c, j = flag.k, flag.c, flag.j
        entry = run.entry(k, c, j, found.analytic, found.numeric, found.error)
        if found.together:
            entry = replace(entry, input=some(run.place(*column) for column in found.together) + " together", index=())
        if not run.settings.explain:
            entry = (self.locate(flag) if entry.index is None else None) or entry
            return run.result(
                self.wrong_verdict(wrong), worst=entry, wrong=count, checked=checked, hint=self.pattern(k, j)
            )
        located = self.locate(flag) if entry.index is None or not run.by_entry else None
        entry = located or entry
        cut = self.cut_on_purpose()
        run.kinks = run.told(kinks)
        verdict = DISCONNECTED if cut else self.wrong_verdict(wrong)
        op, flat_kink, op_report = (None, None, None) if cut else self.first_wrong_op()
        op_hint, op_verdict = (op_report.hint, op_report.verdict) if op_report is not None else (None, None)
        if flat_kink and found.together == () and not math.isfinite(found.left) and op is None:
            verdict = KINK
        hint = cut or self.hint(flag, found, op, op_hint, op_verdict, flat_kink, verdict)
        numeric = number(entry.numeric) if entry.numeric >= 0 else f"({number(entry.numeric)})"
        by_input = self.by_input() if j >= 0 else "of the gradients for one random cotangent"
        facts = [
            (
                "entry",
                f"|{number(entry.analytic)} - {numeric}| = {entry.absolute:.3g} > "
                f"{self.tolerance_words(k, entry)}; relative error {entry.relative:.2g}",
            ),
            (
                "count",
                f"{len(found.together)} tied entries, each valid by itself"
                if found.together
                else f"{count} of {checked} disagree ({by_input})",
            ),
        ]
        if math.isfinite(found.left) and found.status == WRONG_VALUE:
            low, high = sorted((found.left, found.right))
            facts.append(
                (
                    "kink",
                    f"there is a kink here, with every value in [{number(low)}, {number(high)}] valid; "
                    "this one is outside"
                    if not found.near
                    else "a kink is within one step, but smaller steps are clear of it",
                )
            )
        facts += [("op", op)] * bool(op) + [("hint", hint)] * bool(hint)
        steps, taylor, exact = [], None, None
        if j >= 0 and not found.together:
            steps, exact = self.step_rows(flag, found), self.complex_slope(flag)
            facts.append(
                ("steps", self.step_words(steps, "a plateau: it is the gradient that is off, not the differences"))
            )
            taylor = self.taylor_order(j)
        if taylor is not None:
            facts.append(
                (
                    "taylor",
                    f"what is left of f(x + t*d) - f(x) beside t * gradient * d falls like t^{taylor:.1f}: "
                    "it is t^2 when the gradient is right, t^1 when it is wrong",
                )
            )
        if exact is not None:
            facts.append(("complex", f"the complex step, which subtracts nothing, says {number(exact)}"))
        if run.detached and not cut:
            run.notes.append(f"met on the way: {run.detached_words()}; holding them constant does not explain it")
        facts += run.base_facts() + [run.last_fact()]
        headline = (
            f"The slope of {entry.output} with respect to {entry.place} is {number(entry.numeric)}; the gradient says "
            + (
                "nothing: there is none."
                if verdict == DISCONNECTED and not run.reached[k]
                else f"{number(entry.analytic)}."
            )
        )
        return run.result(
            verdict,
            headline=headline,
            worst=entry,
            wrong=count,
            checked=checked,
            hint=hint,
            op=op,
            steps=steps,
            taylor=taylor,
            complex_step=exact,
            kinks=run.kinks,
            facts=facts,
            **run.met(),
        )

    def tolerance_words(self, k, entry) -> str:
        s, extra = self.run.settings, f" (numeric side good to {entry.uncertainty:.0e})" if entry.uncertainty else ""
        plain = s.atol + s.rtol * abs(entry.numeric)
        if abs(plain - entry.allowed) > 1e-3 * entry.allowed:
            return f"{entry.allowed:.3g}{extra}"
        return f"{s.atol:g} + {s.rtol:g} * {number(abs(entry.numeric))} = {plain:.3g}{extra}"

    def by_input(self) -> str:
        run, bad, none = self.run, [], []
        for k, (name, columns) in enumerate(zip(run.names, run.columns)):
            count = sum(flag.k == k for flag in run.flags)
            kind = "entries" if isinstance(columns, range) else "directions"
            if count:
                bad.append(f"{name}: {count} of {run.height * len(columns)} {kind}")
            else:
                none.append(name)
        return ", ".join(bad) + (f"; none of {', '.join(none)}" if none else "")

    def wrong_verdict(self, wrong) -> str:
        run = self.run
        flag, found = wrong[0]
        if found.together:
            return WRONG_VALUE
        if not run.reached[flag.k]:
            return DISCONNECTED
        cotangents = run.row_cotangents(flag.j)
        once, twice = (run.pull([factor * c for c in cotangents]) for factor in (1, 2))
        one, two = (flat_gradient(pulled[flag.k], run.given[flag.k]) for pulled in (once, twice))
        if not np.allclose(two, 2 * one, rtol=1e-6, atol=1e-12):
            return NOT_MULTIPLIED
        if all(found.analytic == 0 for flag, found in wrong):
            return ZERO
        return WRONG_VALUE

    def locate(self, flag) -> Entry | None:
        """The single entry that is furthest off, found by halving a direction, then a combination of outputs."""
        run = self.run
        k, u, j = flag.k, run.columns[flag.k][flag.c], flag.j
        h = run.usual_step(k)
        if isinstance(u, int):
            i = u
        else:
            support = np.arange(u.size)
            while len(support) > 1:
                halves = []
                for half in np.array_split(support, 2):
                    part = np.zeros_like(u)
                    part[half] = u[half]
                    numeric = self.central(k, part, h)[j]
                    gap = abs(float(run.rows[k][j] @ part) - numeric)
                    halves.append((gap / (run.settings.atol + run.settings.rtol * abs(numeric)), half))
                support = max(halves, key=lambda pair: pair[0])[1]
            i = int(support[0])
        h *= max(1.0, abs(float(run.x[k].reshape(-1)[i])))
        analytic = float(run.rows[k][j][i])
        if run.by_entry:
            numeric, name = float(self.central(k, i, h)[j]), run.row_name(j)
        else:
            by_entry, run.by_entry = run.by_entry, True
            column = self.central(k, i, h, every=True)
            whole = np.concatenate([c.reshape(-1) for c in run.combinations[j]])
            support = np.arange(run.count)
            while len(support) > 1:
                halves = []
                for half in np.array_split(support, 2):
                    part = np.zeros_like(whole)
                    part[half] = whole[half]
                    halves.append((abs(self.pulled_entry(k, i, part) - part @ column), half))
                support = max(halves, key=lambda pair: pair[0])[1]
            o = int(support[0])
            part = np.zeros_like(whole)
            part[o] = whole[o]
            analytic, numeric, name = self.pulled_entry(k, i, part) / whole[o], float(column[o]), run.row_name(o)
            run.by_entry = by_entry
        allowed = run.settings.atol + run.settings.rtol * abs(numeric)
        if not abs(analytic - numeric) > allowed:
            return None
        return Entry(name, run.names[k], index_of(i, run.given[k].shape), analytic, numeric, allowed)

    def central(self, k, u, h, every=False):
        run = self.run
        with run.way.quiet():
            return (run.moved(k, u, h) - run.moved(k, u, -h)) / (2 * h)

    def pulled_entry(self, k, i, whole) -> float:
        run = self.run
        parts = np.split(whole, np.cumsum(run.sizes)[:-1])
        pulled = run.pull([p.reshape(s).astype(array_of(y).dtype) for p, s, y in zip(parts, run.shapes, run.ys)])
        return float(flat_gradient(pulled[k], run.given[k])[i])

    def step_rows(self, flag, found) -> list:
        study = self.run.study(flag.k, flag.c)
        rows = zip(study.steps, study.slope[:, flag.j])
        return [(float(h), float(d), abs(found.analytic - float(d))) for h, d in rows if math.isfinite(d)]

    def step_words(self, steps, verdict) -> str:
        shown = [f"{gap:.1e} at {h:.0e}" for h, _, gap in steps[:: max(1, len(steps) // 4)]]
        gaps = [gap for _, _, gap in steps]
        if not gaps:
            return "the function is finite on one side only"
        if max(gaps) < 1.1 * min(gaps):
            return f"the gap is {min(gaps):.2g} at every step from {steps[0][0]:.0e} to {steps[-1][0]:.0e}: {verdict}"
        return f"the gap is {', '.join(shown)}: {verdict}"

    def taylor_order(self, j) -> float | None:
        """How fast f(x + t·d) leaves its linear approximation: like t² when the gradient is right, like t when not."""
        run = self.run
        pulled = run.pull(run.row_cotangents(j))
        factor = 1.25 if run.by_entry else 1.0
        d = [run.rng.uniform(0.5, 1.5, v.size) * run.rng.choice((-1.0, 1.0), v.size) for v in run.given]
        slope = sum(float(flat_gradient(g, v) @ u) for g, v, u in zip(pulled, run.given, d)) / factor
        remainders, steps = [], 0.02 * 0.5 ** np.arange(10)
        with run.way.quiet():
            for t in steps:
                for k, (x, u) in enumerate(zip(run.x, d)):
                    run.flat[k][:] = x.reshape(-1) + t * u
                    run.renew(k)
                remainders.append(abs(float(run.z()[j]) - float(run.z0[j]) - t * slope))
        for k, x in enumerate(run.x):
            run.flat[k][:] = x.reshape(-1)
            run.renew(k)
        noise = 100 * float(np.finfo(run.z0.dtype).eps) * max(abs(float(run.z0[j])), 1e-300)
        r = np.array([v for v in remainders if v > noise and math.isfinite(v)])
        return float(np.median(np.log2(r[:-1] / r[1:])[-4:])) if len(r) > 2 else None

    def complex_slope(self, flag) -> float | None:
        """The slope as Im f(x + ih)/h, where f takes complex arrays and treats them as analytic functions do."""
        run = self.run
        first, u = run.subject, run.columns[flag.k][flag.c]
        if not isinstance(first, First):
            return None
        h = 1e-20
        points = [v.astype(np.float64) for v in run.given]
        moved = [v.astype(np.complex128) for v in points]
        moved[flag.k].reshape(-1)[u if isinstance(u, int) else slice(None)] += 1j * h * (1 if isinstance(u, int) else u)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                plain, ys = first.call(points), first.call(moved)
                real, z = (np.concatenate([np.ravel(np.asarray(y[i])) for i in run.positions]) for y in (plain, ys))
                z, real = run.project(z), run.project(real)
        except Exception:
            return None
        slope = float(np.imag(z[flag.j])) / h
        study = run.study(flag.k, flag.c).judge(flag.j, slope, 1e-6, 1e-4, abs(slope))
        if z.dtype.kind != "c" or not np.allclose(real, run.z0, rtol=1e-9) or study.status not in (MATCH, UNSUITED):
            return None
        return slope if math.isfinite(slope) else None

    def cut_on_purpose(self) -> str | None:
        """What to say if the disagreement goes away when detached tensors are held constant."""
        run = self.run
        if not run.detached or isinstance(run.subject, Replay):
            return None
        settings = replace(run.settings, hold_detached=True, explain=False)
        rng = np.random.default_rng(0)
        try:
            held = type(run)(run.subject, run.names, run.given, settings, rng, 0).report()
        except Exception:
            return None
        finally:
            run.subject.record(run.variables)
        if held.verdict not in (MATCH, KINK, NOTHING) or held.wrong:
            return None
        return (
            f"with {run.detached_words()} held constant, the gradient agrees: what is missing is what detach() cuts "
            "off. If that is meant, pass hold_detached=True; if not, take the detach out"
        )

    def first_wrong_op(self):
        """The first op whose rule disagrees on its own inputs, in words, and an op that stands at a kink."""
        run = self.run
        settings = replace(
            run.settings,
            explain=False,
            hold_detached=False,
            eps=None,
            fast_mode=False,
            directions=4,
            max_entries=64,
            max_rows=64,
            allow_float32=True,
        )
        nodes = [
            t
            for t in below_roots([y for y in run.subject.roots if isinstance(y, Node)])
            if t._rule is not None and t._rule.differentiable and t._role == PATH
        ]
        nodes.sort(key=lambda t: t._id)
        at_kink, tried = None, 0
        for place, node in enumerate(nodes[:500], 1):
            report = _check_rule(node, settings, run.subject.order, type(run))
            if report is None:
                continue
            tried += 1
            if report.ok or report.verdict == NOTHING:
                at_kink = at_kink or (node._rule.name if report.kinks else None)
                continue
            where = (
                f"the {_ordinal(place)} of {len(nodes)} ops, counted from the inputs"
                if len(nodes) > 1
                else "the only op"
            )
            said = f"{node._rule.name} ({where}; its result has shape {node._shape}): "
            if report.worst is None:
                return said + report.first_line.partition(": ")[2], at_kink, report
            w = report.worst
            return (
                (
                    said + f"checked by itself, {report.verdict} for {w.place}: its rule says {number(w.analytic)}, "
                    f"differences say {number(w.numeric)}"
                ),
                at_kink,
                report,
            )
        self.tried = (tried, len(nodes))
        return None, at_kink, None

    def hint(self, flag, found, op, op_hint, op_verdict, at_kink, verdict) -> str | None:
        run = self.run
        k, j = flag.k, flag.j
        if found.together:
            return (
                f"a tie: the shares of the tied entries add up to {number(found.analytic)}, and moved together they "
                f"move the output by {number(found.numeric)} per unit. Shares of a maximum or minimum sum to 1"
            )
        if verdict == KINK:
            return (
                f"each rule by itself takes a valid value, and {at_kink} stands at a kink: put together, such values "
                "need not be the slope. Move the point a little, or write the function without the kink"
            )
        if j < 0 and verdict == WRONG_VALUE:
            return (
                "the gradients for one entry of the output at a time are right, and for all together they are not "
                "their sum: a partial must be linear in g"
            )
        if verdict == NOT_MULTIPLIED:
            return "the gradient does not double when the cotangent does: a partial must return g times the derivative"
        if verdict == DISCONNECTED and op is None:
            if run.captured and not run.used[k]:
                return (
                    f"f uses {some(sorted(label_of(t) for t in run.captured))} from outside; inside f, use the argument"
                )
            return (
                "no path of recorded ops leads from this input to the output, yet the output moves with it: its value "
                "was used through .data, .item() or float(), or a partial is None or returns None"
            )
        if verdict == DISCONNECTED and run.subject.order == 2:
            return (
                "its partial loses track of what it was computed from: it reads .data, calls detach(), or computes "
                "with something else than NumPy functions and operators"
            )
        if verdict == DISCONNECTED:
            return "its partial for this operand is None, or returns None: that says there is no gradient, but there is"
        if op is None and self.tried[0] == self.tried[1]:
            return (
                "every rule agrees on its own inputs, so the ops that were recorded are not what f computes: a value "
                "went through .data, .item() or a plain array on the way"
            )
        usual = self.pattern(k, j)
        if op_hint and (usual is None or op_verdict == WRONG_VALUE):
            usual = op_hint
        return usual or self.where_alone(k, j)

    def pattern(self, k, j) -> str | None:
        """The usual cause of the way in which the slopes by input k are off."""
        run = self.run
        rows = self.wrong_rows(k)
        if rows is None:
            return None
        a, n = run.rows[k][rows], run.numeric[k].T[rows]
        return _usual_cause(a, n, run.given[k], run.shapes[0], self.others(k, rows)) or self.turned(k)

    def turned(self, k) -> str | None:
        """Whether the slopes by input k are right once an axis of the output and one of the input change places."""
        run = self.run
        if not run.by_entry or len(run.shapes) != 1:
            return None
        outer, shape = len(run.shapes[0]), run.shapes[0] + run.given[k].shape
        a, n = run.rows[k].reshape(shape), run.numeric[k].T.reshape(shape)
        for i in range(outer):
            for j in range(outer, len(shape)):
                if shape[i] == shape[j] > 1 and np.allclose(a, np.swapaxes(n, i, j), rtol=1e-4, atol=1e-8):
                    return "a matrix in the rule is transposed where it should not be, or is not where it should"
        return None

    def wrong_rows(self, k) -> list | None:
        run = self.run
        return sorted({f.j for f in run.flags if f.k == k}) or None if isinstance(run.columns[k], range) else None

    def where_alone(self, k, j) -> str | None:
        run = self.run
        rows = self.wrong_rows(k)
        if rows is None:
            return None
        return _where_wrong(_differ(run.rows[k][rows], run.numeric[k].T[rows]), run.given[k], alone=True) or None

    def others(self, k, rows) -> list:
        run = self.run
        same = [i for i, v in enumerate(run.given) if i != k and v.shape == run.given[k].shape]
        return [(run.names[i], run.numeric[i].T[rows]) for i in same if isinstance(run.columns[i], range)]


def _usual_cause(a, n, x, output_shape, others) -> str | None:
    """What the pattern of analytic against numeric slopes usually comes from. Both are rows by input entries."""
    wrong = _differ(a, n)
    if not wrong.any():
        return None
    if (a[wrong] == 0).all():
        return "0 in those entries: a path is dropped, or only the last of several shares is kept" + _where_wrong(
            wrong, x
        )
    ratio, there = a[wrong & (n != 0)] / n[wrong & (n != 0)], int(np.sum(n != 0))
    partial = f", in {int(wrong.sum())} of {there} entries" if wrong.sum() < there else ""
    if ratio.size == wrong.sum() and np.allclose(ratio, ratio[0], rtol=1e-4):
        words = _ratio_words(float(np.mean(ratio)), x, output_shape, known_only=ratio.size == 1)
        if words:
            return words + partial + _where_wrong(wrong, x)
    if np.allclose(np.abs(a), np.abs(n), rtol=1e-4):
        return "right size, wrong sign in some entries: an abs, or a sign that depends on the input" + _where_wrong(
            wrong, x
        )
    for name, other in others:
        if np.allclose(a, other, rtol=1e-4, atol=1e-9):
            return f"this is the slope by {name}: two partials are swapped"
    moved = _moved_words(a, n, x.shape)
    if moved:
        return moved
    nonzero = n != 0
    if nonzero.all() and np.allclose(a * n, 1, rtol=1e-4):
        return "the reciprocal of the slope: divided where it should multiply"
    if np.allclose(a, n * n, rtol=1e-4, atol=1e-6 * float(np.max(np.abs(a)))):
        return "the square of the slope: applied twice"
    if wrong.all() and np.allclose(a - n, (a - n)[0, 0], rtol=1e-4):
        return f"off by {number((a - n)[0, 0])} in every entry: a term is missing or added"
    if wrong.all() and a.shape[1] > 1 and np.allclose(a.sum(1), n.sum(1), rtol=1e-4):
        return "the sum over the entries is right: the shares are dealt out wrongly"
    for axis, what in (
        (1, "moving all entries of the input together does not move the output"),
        (0, "the sum of the output does not change"),
    ):
        still = np.abs(n.sum(axis)) < 1e-6 * np.abs(n).sum(axis)
        if n.shape[axis] > 1 and still.all() and (np.abs(a.sum(axis)) > 1e-3 * np.abs(n).sum(axis)).any():
            return f"{what}, but the gradient says it does: the term that takes out a mean or a sum is missing or wrong"
    return None


def _differ(a, n):
    return ~np.isclose(a, n, rtol=1e-5, atol=1e-7 * float(np.max(np.abs(n), initial=0.0)))


def _ratio_words(r: float, x, output_shape, known_only: bool) -> str:
    counts = {}
    for what, shape in (("the input", x.shape), ("the output", output_shape)):
        counts.setdefault(math.prod(shape), f"the number of entries of {what}")
        for axis, length in enumerate(shape):
            counts.setdefault(length, f"the length of axis {axis} of {what}")
    known = {
        -1: "the sign is wrong",
        2: "counted twice, or a factor 2 too many",
        0.5: "a factor 2 is missing, or one of two equal paths was dropped (overwritten instead of summed)",
        -2: "the sign is wrong, and a factor 2 too many",
        -0.5: "the sign is wrong, and a factor 2 is missing",
        math.log(10): "a factor ln 10 too many",
        1 / math.log(10): "a factor ln 10 is missing",
        math.log(2): "a factor ln 2 too many",
        1 / math.log(2): "a factor ln 2 is missing",
        math.pi / 180: "degrees and radians mixed up",
        180 / math.pi: "degrees and radians mixed up",
    }
    text = next((words for value, words in known.items() if math.isclose(r, value, rel_tol=1e-4)), "")
    for count, what in counts.items():
        if count > 1 and math.isclose(r, count, rel_tol=1e-4):
            text += ("; or " if text else "") + f"{what}: a sum where a mean belongs, or added up once too often"
        elif count > 1 and math.isclose(r, 1 / count, rel_tol=1e-4):
            text += ("; or " if text else "") + (
                f"1 over {what}: a mean where a sum belongs, or a broadcast that was averaged or not summed"
            )
    if not text and known_only:
        return ""
    return f"gradient / numeric is {number(r)}: " + (text or "a constant factor is off")


def _moved_words(a, n, shape) -> str | None:
    """Whether the right numbers stand in the wrong places."""
    grids = [(row.reshape(shape), right.reshape(shape)) for row, right in zip(a, n)]

    def holds(change) -> bool:
        return all(np.allclose(row, change(right), rtol=1e-4, atol=1e-8) for row, right in grids)

    if len(shape) > 1:
        last = tuple(range(len(shape) - 2)) + (len(shape) - 1, len(shape) - 2)
        if holds(lambda g: np.transpose(g, last).reshape(shape)) or holds(lambda g: g.T.reshape(shape)):
            return "the slopes, transposed"
        if holds(lambda g: np.transpose(g.reshape(np.array(shape)[list(last)]), last)):
            return "the slopes, transposed"
    for axis in range(len(shape)):
        for by in (1, -1):
            if holds(lambda g: np.roll(g, by, axis)):  # noqa: B023
                return f"the slopes, shifted by one along axis {axis}: an index is off by one"
        if holds(lambda g: np.flip(g, axis)):  # noqa: B023
            return f"the slopes, in reverse order along axis {axis}"
    for axis in range(len(shape)):
        for name, function in (("averaged", np.mean), ("summed", np.sum)):
            if holds(lambda g: np.broadcast_to(function(g, axis=axis, keepdims=True), g.shape)):  # noqa: B023
                return f"the slopes, {name} over axis {axis}: summed or broadcast over the wrong axis"
    if all(np.allclose(np.sort(row, None), np.sort(right, None), rtol=1e-4, atol=1e-8) for row, right in grids):
        return "the right numbers in the wrong places: an index or a permutation is wrong"
    return None


def _where_wrong(wrong, x, alone=False) -> str:
    """Words for the wrong entries, when they are few or lie beyond a threshold."""
    columns = wrong.any(axis=0)
    flat, joint = x.reshape(-1), "" if alone else "; "
    if columns.all() or flat.size < 3:
        return ""
    bad, good = flat[columns], flat[~columns]
    sides = (("|{n}| is large", np.abs(bad), np.abs(good)), ("{n} is large", bad, good), ("{n} is small", -bad, -good))
    for words, b, g in sides:
        if b.min() > g.max() and len(b) > 1 or b.min() > 4 * abs(g.max()):
            return (
                f"{joint}wrong only where {words.format(n='x')}: from {number(bad[np.argmin(b)])} on, and right up to "
                f"{number(good[np.argmax(g)])}: a branch, or a range where the formula fails"
            )
    if columns.sum() <= 3:
        places = some(str(list(index_of(int(i), x.shape))) for i in np.flatnonzero(columns))
        return f"{joint}only at {places}, right in the other {int((~columns).sum())} entries"
    return ""


def _check_rule(node: Node, settings, order: int, run_class) -> GradcheckReport | None:
    """The same check for one op alone, at the inputs that were recorded; None when it can't be run alone."""
    rule = node._rule
    values = [t._array if isinstance(t, Node) else t for t in node._inputs]
    positions = [i for i, t in enumerate(node._inputs) if isinstance(t, Node) and floating(t) and t._array.size]
    names = [_operand(node, i) for i in positions]
    rng = np.random.default_rng(0)
    try:
        params, options = forward_params(node)
        subject = First(lambda *operands: apply(rule, operands, params, options), values, positions, names)
        given = [values[i] for i in positions]
        if order == 2:
            y = subject.record([Var(v) for v in given])[0]
            subject = Second(subject, len(given), names)
            given, names = given + [random_cotangent(rng, y._shape, y._array.dtype)], names + ["the cotangent"]
        return run_class(subject, names, given, settings, rng, 0).report()
    except Exception:
        return None


def first_misfit(roots, rng):
    """The first op, users first, that returns a share of another shape or dtype than its operand's."""
    nodes = [
        t
        for t in below_roots([y for y in roots if isinstance(y, Node)])
        if t._rule is not None and t._rule.differentiable and t._role == PATH
    ]
    for node in sorted(nodes, key=lambda t: -t._id):
        values = [t._array if isinstance(t, Node) else t for t in node._inputs]
        g = random_cotangent(rng, node._shape, node._array.dtype)
        for i, (partial, t) in enumerate(zip(node._rule.partials_for(node._inputs), node._inputs)):
            if partial is None or not isinstance(t, Node) or not t._role:
                continue
            try:
                share = partial(g, node._array, *values, **node._params)
            except Exception:
                continue
            if share is None:
                continue
            share = np.asarray(array_of(share))
            if share.shape != t._shape:
                return node, i, WRONG_SHAPE, share.shape, t._shape
            if share.dtype != t._array.dtype:
                return node, i, WRONG_DTYPE, share.dtype, t._array.dtype
    return None


def _operand(node: Node, i: int) -> str:
    """What the rule calls operand i."""
    rule = node._rule
    partial = next((p for p in rule.partials if p is not None and hasattr(p, "__code__")), None)
    if partial is not None and not rule.each:
        names = list(inspect.signature(partial).parameters)[2:]
        if i < len(names) and not names[i].startswith(("operands", "args")):
            return f"operand {names[i]}"
    return f"{_ordinal(i + 1)} operand"


def _ordinal(n: int) -> str:
    return f"{n}{'th' if n % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
