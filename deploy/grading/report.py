"""What the teacher reads: a page with plots, and the same as CSV.

`report/index.html` needs no network and runs no script. Everything that came from a student is escaped. A plot is a
column of bars beside the numbers that they stand for, so it can be read on a phone and without colours.
"""

import collections
import csv
import html
import re

from autodiff.course import api

MOST = 5
LONGEST = 2000  # characters of a reason, and of what is worth a look
# In this order, and in these colours of the style, in a bar.
STATUSES = ("passed", "not right", "not finished yet", "not started yet", "the check itself broke", "failed")
_STYLE = """
:root{color-scheme:light dark;--text:#1a1a1a;--back:#fff;--line:#999;--head:#eee;--link:#0b4a8f;
--s0:#1f6fb8;--s1:#c8641b;--s2:#d9b36c;--s3:#c4c4c4;--s4:#8c1d40;--s5:#555}
@media(prefers-color-scheme:dark){:root{--text:#e6e6e6;--back:#161616;--line:#666;--head:#2a2a2a;--link:#8bbcf0;
--s0:#5aa2e6;--s1:#e08a45;--s2:#a8874a;--s3:#555;--s4:#d4607f;--s5:#aaa}}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:var(--text);
background:var(--back)}
a{color:var(--link)}nav{display:flex;flex-wrap:wrap;gap:0 1em}
.wide{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse}
th,td{border:1px solid var(--line);padding:.2rem .6rem;text-align:left;vertical-align:top}
th{background:var(--head)}td.n{text-align:right}td.t{min-width:11rem;overflow-wrap:anywhere}
.bar{display:block;width:12rem;height:1.1em;margin:.2em 0}
.key span{display:inline-block;width:1em;height:1em;vertical-align:-.1em;margin-right:.3em}.key{line-height:1.8}
.key b{font-weight:normal;margin-right:1.2em;white-space:nowrap}
@media(max-width:40rem){.bar{width:5rem}th,td{padding:.2rem .4rem}td.t{min-width:9rem}}
"""
_STYLE += "".join(f".s{n}{{fill:var(--s{n});background:var(--s{n})}}" for n in range(len(STATUSES)))


class Markup(str):
    """HTML made here, which is not escaped again."""


def write(folder, entries, marks, left, alone):
    """Write the report of `entries`, [(submission, what is kept of it)]; returns the path of the page.

    `left` and `alone`: a line for each submission that was not graded, and for each thing that was taken for none.
    """
    target = folder / "report"
    target.mkdir(exist_ok=True)
    graded = [(one, entry) for one, entry in entries if "verdicts" in entry]
    rows = [_row(one, entry, marks.get((one.id, one.assignment), {})) for one, entry in graded]
    told = [(one.student, one.id, one.assignment, task, v["status"], *_diagnosis(task, v["fault"]))
            for one, entry in graded for task, v in entry["verdicts"].items()]
    common = mistakes(told)
    _csv(target / "marks.csv", ("student", "id", "assignment", "points", "of", "to mark by hand", "passed", "tasks",
                                "reason", "worth a look"), rows)  # fmt: skip
    _csv(target / "diagnoses.csv", ("student", "id", "assignment", "task", "status", "fault", "what"), told)
    _csv(target / "mistakes.csv", ("students", "task", "fault", "what"), common)
    path = target / "index.html"
    path.write_text(_page(rows, told, common, left, alone), encoding="utf-8")
    return path


def mistakes(told):
    """(number of students, task, fault, title) of each diagnosis, the most frequent first."""
    students = collections.defaultdict(set)
    for _, student, _, task, _, fault, title in told:
        if fault:
            students[task, fault, title].add(student)
    ranked = sorted(students.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(len(who), *what) for what, who in ranked]


def _diagnosis(task, fault):
    """The id and the title of a mistake; of none that the course does not know, as after a change of it."""
    known = api.tasks().get(task)
    return (fault, known.fault(fault).title) if known and fault and known.knows(fault) else ("", "")


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


def _page(rows, told, common, left, alone):
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>Marks and mistakes</title>",
             "<meta name=viewport content='width=device-width'>", f"<style>{_STYLE}</style>",
             "<h1>Marks and mistakes</h1>",
             f"<p>{len({row[1] for row in rows})} students, {len(rows)} submissions. The question to think back on is "
             "marked by hand, so points may still be added. The same as tables: <a href=marks.csv>marks</a>, "
             "<a href=diagnoses.csv>diagnoses</a>, <a href=mistakes.csv>mistakes</a>.</p>",
             "<nav><a href=#mistakes>Mistakes</a><a href=#points>Points</a><a href=#tasks>Tasks</a>"
             "<a href=#students>Students</a><a href=#diagnoses>Diagnoses</a></nav>"]  # fmt: skip
    if left:
        parts += ["<h2>Not graded</h2><p>Through no fault of the submission; run the same command again.</p>",
                  _table(("what",), [(line,) for line in left])]  # fmt: skip
    if alone:
        parts += ["<h2>Left alone</h2><p>Taken for no submission. Put in its place what was meant for one, and run the "
                  "same command again.</p>", _table(("what",), [(line,) for line in alone])]  # fmt: skip
    parts += [*_common(common[:MOST]), *_points(rows), *_tasks(told), "<h2 id=students>Students</h2>", _table(
        ("student", "assignment", "points", "of", "by hand", "passed", "reason", "worth a look"),
        [(r[0], r[2], *r[3:6], f"{r[6]} of {r[7]}", r[8], r[9]) for r in rows]),
        "<h2 id=diagnoses>Diagnoses</h2>", _table(("student", "task", "status", "diagnosis"), [
            (r[0], r[3], r[4], _marked(r[6])) for r in told if r[4] != "passed"])]  # fmt: skip
    return "\n".join(parts) + "\n</html>\n"


def _common(top):
    if not top:
        return ["<h2 id=mistakes>The most common mistakes</h2>", "<p>No answer met a diagnosis that has a name.</p>"]
    most = top[0][0]
    return ["<h2 id=mistakes>The most common mistakes</h2>",
            _table(("students", "", "task", "mistake", "what to look at"), [
                (n, _bar([(1, n)], most), f"{task} {_name(task)}", _marked(title),
                 _marked(api.tasks()[task].fault(fault).look))
                for n, task, fault, title in top])]  # fmt: skip


def _points(rows):
    reached = [100 * row[3] / row[4] for row in rows if row[4] and row[3] is not None]
    if not reached:
        return []
    counts = collections.Counter(min(int(r // 10), 9) for r in reached)
    most = max(counts.values())
    return ["<h2 id=points>Points</h2><p>How many submissions reached which share of their points.</p>",
            _table(("points, in %", "submissions", ""), [
                (f"{10 * t}–{10 * t + (10 if t == 9 else 9)}", counts[t], _bar([(0, counts[t])], most))
                for t in range(10)])]  # fmt: skip


def _tasks(told):
    counts = collections.Counter((row[3], row[4]) for row in told)
    kinds = [kind for kind in STATUSES if any(status == kind for _, status in counts)]
    tasks = sorted({row[3] for row in told})
    if not tasks:
        return []
    key = "".join(f"<b><span class=s{STATUSES.index(kind)}></span>{kind}</b>" for kind in kinds)
    return ["<h2 id=tasks>Tasks</h2>", f"<p class=key>{key}</p>", _table(("task", "", *kinds), [
        (f"{t} {_name(t)}", _bar([(n, counts[t, kind]) for n, kind in enumerate(STATUSES)],
                                 sum(counts[t, kind] for kind in kinds)), *[counts[t, kind] for kind in kinds])
        for t in tasks])]  # fmt: skip


def _name(task):
    known = api.tasks().get(task)
    return known.title if known else ""


def _bar(parts, whole):
    """A bar as long as the counts in `parts`, [(colour, count)], are of `whole`."""
    drawn, at = "", 0.0
    for colour, count in parts:
        width = 100 * count / whole
        drawn += f'<rect class=s{colour} x="{at:.2f}" width="{width:.2f}" height="8" />' if count else ""
        at += width
    return Markup(f'<svg class=bar viewBox="0 0 100 8" preserveAspectRatio=none aria-hidden=true>{drawn}</svg>')


def _marked(text):
    """The course's own words, with their `code`."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", _escaped(text)))


def _table(header, rows):
    def cell(value, tag):
        shown = value if isinstance(value, Markup) else _escaped(value)
        long = len(shown) > 30 and "<svg" not in shown
        kind = " class=n" if isinstance(value, int | float) else " class=t" if long else ""
        return f"<{tag}{kind}>{shown}</{tag}>"

    def line(values, tag):
        return f"<tr>{''.join(cell(v, tag) for v in values)}</tr>\n"

    body = "".join(line(row, "td") for row in rows)
    return f"<div class=wide><table><thead>{line(header, 'th')}</thead><tbody>\n{body}</tbody></table></div>"


def _escaped(value):
    if value is None:
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return html.escape(text.encode("utf-8", "replace").decode())
