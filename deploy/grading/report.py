"""What the teacher reads: a page with plots, and the same as CSV.

`report/index.html` needs no network and runs no script. Everything that came from a student is escaped.
"""

import collections
import csv
import html

from autodiff.course import api
from autodiff.course.chart import chart

MOST = 5
LONGEST = 2000  # characters of a reason, and of what is worth a look
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:1rem 0}
td:nth-child(n+7){min-width:12rem}
th,td{border:1px solid #999;padding:.2rem .6rem;text-align:left;vertical-align:top}
th{background:#eee}td.n{text-align:right}svg{max-width:100%;height:auto}pre{white-space:pre-wrap}"""


def write(folder, entries, marks, left):
    """Write the report of `entries`, [(submission, what is kept of it)]; returns the path of the page."""
    target = folder / "report"
    target.mkdir(exist_ok=True)
    graded = [(one, entry) for one, entry in entries if "verdicts" in entry]
    rows = [_row(one, entry, marks.get((one.id, one.assignment), {})) for one, entry in graded]
    told = [(one.student, one.id, one.assignment, task, v["status"], v["fault"] or "", _title(task, v["fault"]))
            for one, entry in graded for task, v in entry["verdicts"].items()]  # fmt: skip
    common = mistakes(told)
    _csv(target / "marks.csv", ("student", "id", "assignment", "points", "of", "to mark by hand", "passed", "tasks",
                                "reason", "worth a look"), rows)  # fmt: skip
    _csv(target / "diagnoses.csv", ("student", "id", "assignment", "task", "status", "fault", "what"), told)
    _csv(target / "mistakes.csv", ("students", "task", "fault", "what"), common)
    path = target / "index.html"
    path.write_text(_page(rows, told, common, left), encoding="utf-8")
    return path


def mistakes(told):
    """(number of students, task, fault, title) of each diagnosis, the most frequent first."""
    students = collections.defaultdict(set)
    for _, student, _, task, _, fault, _ in told:
        if fault:
            students[task, fault].add(student)
    ranked = sorted(students.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(len(who), task, fault, _title(task, fault)) for (task, fault), who in ranked]


def _title(task, fault):
    known = api.tasks().get(task)
    return known.fault(fault).title if known and fault and known.knows(fault) else ""


def _row(one, entry, mark):
    found = entry["verdicts"].values()
    reasons = [*entry["notes"]]
    if entry["unreadable"]:
        reasons.insert(0, f"could not be read: {entry['unreadable']}")
    reasons += list(dict.fromkeys(v["text"].partition("  ")[2] for v in found if v["status"] == "failed"))[:1] * (
        not entry["unreadable"])  # fmt: skip
    result = entry["result"] or {}
    look = list(entry["look"])
    if result.get("undone"):
        look.append("changed and put back: " + ", ".join(map(str, result["undone"])))
    if result.get("denied"):
        look.append("refused: " + ", ".join(map(str, result["denied"])))
    if result.get("forged"):
        look.append(f"{result['forged']} forged lines were ignored")
    if any(v["tampered"] for v in found):
        look.append("an answer changed the check while it was called, or a thread could")
    return (one.student, one.id, one.assignment, mark.get("score"), mark.get("max_score"),
            "yes" if mark.get("manual") else "no", sum(v["status"] == "passed" for v in found), len(found),
            "; ".join(reasons)[:LONGEST], "; ".join(map(str, look))[:LONGEST])  # fmt: skip


def _csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows([_cell(value) for value in row] for row in rows)


def _cell(value):
    """A spreadsheet takes text that begins so for a formula."""
    text = value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    return "'" + text if isinstance(text, str) and text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _page(rows, told, common, left):
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>Marks</title>", f"<style>{_STYLE}</style>",
             "<h1>Marks and mistakes</h1>",
             f"<p>{len({row[1] for row in rows})} students, {len(rows)} submissions. The question to think back on is "
             "marked by hand, so points may still be added. The same as tables: <a href=marks.csv>marks</a>, "
             "<a href=diagnoses.csv>diagnoses</a>, <a href=mistakes.csv>mistakes</a>.</p>"]  # fmt: skip
    if left:
        parts += ["<h2>Not graded</h2><p>Through no fault of the submission; run the same command again.</p>",
                  _table(("what",), [(line,) for line in left])]  # fmt: skip
    parts += _common(common[:MOST]) + _tasks(told) + _points(rows)
    parts += ["<h2>Diagnoses</h2>", _table(("student", "task", "status", "diagnosis"), [
        (r[0], r[3], r[4], r[6]) for r in told if r[4] != "passed"])]  # fmt: skip
    return "\n".join(parts) + "\n</html>\n"


def _common(top):
    if not top:
        return ["<h2>The most common mistakes</h2>", "<p>No answer met a diagnosis that has a name.</p>"]
    table = _table(("students", "task", "mistake", "what to look at"), [
        (n, f"{task} {_name(task)}", title, api.tasks()[task].fault(fault).look) for n, task, fault, title in top])
    bars = {"students": (range(1, len(top) + 1), [n for n, *_ in top])}
    return ["<h2>The most common mistakes</h2>", table,
            _figure(bars, "rank in this table", "students", "How many students met each of the most common mistakes.")]


def _tasks(told):
    tasks = sorted({row[3] for row in told})
    if not tasks:
        return []
    counts = collections.Counter((row[3], row[4]) for row in told)
    kinds = sorted({row[4] for row in told}, key=lambda s: (s != "passed", s))
    share = [100 * counts[t, "passed"] / sum(counts[t, kind] for kind in kinds) for t in tasks]
    return ["<h2>Tasks</h2>",
            _figure({"passed": (range(1, len(tasks) + 1), share)}, "number of the task in the table below",
                    "passed, in %", "The lower, the harder the task was for this class."),
            _table(("", "task", *kinds), [
                (n, f"{t} {_name(t)}", *[counts[t, kind] for kind in kinds]) for n, t in enumerate(tasks, 1)])]


def _points(rows):
    parts = ["<h2>Points</h2>"]
    reached = [100 * row[3] / row[4] for row in rows if row[4] and row[3] is not None]
    if reached:
        tenths = [min(int(r // 10), 9) for r in reached]
        middle = {"submissions": ([10 * t + 5 for t in range(10)], [tenths.count(t) for t in range(10)])}
        parts.append(_figure(middle, "points reached, in %, by tenths", "submissions",
                             "How many submissions reached which share of their points."))
    return [*parts, _table(("student", "assignment", "points", "of", "by hand", "passed", "reason", "worth a look"), [
        (r[0], r[2], *r[3:6], f"{r[6]} of {r[7]}", r[8], r[9]) for r in rows])]  # fmt: skip


def _name(task):
    known = api.tasks().get(task)
    return known.title if known else ""


def _table(header, rows):
    def cells(values, tag):
        return "".join(f"<{tag}{' class=n' if isinstance(v, int | float) else ''}>{_escaped(v)}</{tag}>"
                       for v in values)  # fmt: skip

    body = "".join(f"<tr>{cells(row, 'td')}</tr>\n" for row in rows)
    return f"<table><thead><tr>{cells(header, 'th')}</tr></thead><tbody>\n{body}</tbody></table>"


def _escaped(value):
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return html.escape(text.encode("utf-8", "replace").decode())


def _figure(lines, xlabel, ylabel, says):
    made = chart(lines, xlabel, ylabel, says=says)
    words = html.escape(made.text())
    return f"<figure>{made.svg()}<details><summary>The plot in words</summary><pre>{words}</pre></details></figure>"
