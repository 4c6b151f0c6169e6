"""The labs in a real browser: one notebook with all six, each control moved, and what is shown after that."""

import json
import re
import urllib.parse

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: python deploy/bootstrap.py browser")
expect = sync_api.expect

pytestmark = pytest.mark.browser

START_MILLISECONDS = 90_000
CELLS = {
    "ties": "labs.ties(lambda x: x.max(), [1.0, 3.0, 3.0])",
    "detach": "labs.detach(lambda x: (x - x / 2) ** 2, 3.0)",
    "differences": "labs.differences(np.exp, 1.0)",
    "broadcasting": 'labs.broadcasting("4,3", "3")',
    "training": "labs.training()",
    "checkpointing": "labs.checkpointing()",
    "own": "labs.ties(lambda x: np.histogram(x) if x.data.min() < 0 else x.max(), [0.5, 1.0])",
}
IDLE = "() => window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
DONE = """(count) => {
    const cells = Array.from(window.jupyterapp.shell.currentWidget.content.model.cells);
    const ran = cell => cell.executionCount !== null && cell.executionState === 'idle';
    return cells.length === count && cells.every(ran);
}"""
ERRORS = """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
    .flatMap(cell => cell.outputs.toJSON()).filter(output => output.output_type === 'error').map(e => e.evalue)"""
# The size on the screen of the smallest text in any picture.
SMALLEST_TEXT = """lab => Math.min(99, ...Array.from(lab.querySelectorAll("svg"), svg => {
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    const sizes = Array.from(svg.querySelectorAll("text"), t => parseFloat(getComputedStyle(t).fontSize));
    return scale * Math.min(99, ...sizes);
}))"""
# What the button and the menu of JupyterLab do.
INTERRUPT = "() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')"


@pytest.fixture(scope="module")
def notebook(lab, browser, browser_context_args):
    """The page with a notebook of all labs, run from top to bottom."""
    context = browser.new_context(**browser_context_args)
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    sources = ["import numpy as np\nimport autodiff as ad\nfrom autodiff import labs", *CELLS.values()]
    cells = [
        {"cell_type": "code", "id": f"c{i}", "source": s, "metadata": {}, "outputs": [], "execution_count": None}
        for i, s in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    address = urllib.parse.urlsplit(lab("labs.ipynb"))
    made = context.request.put(
        f"{address.scheme}://{address.netloc}/api/contents/labs.ipynb?{address.query}",
        data=json.dumps({"type": "notebook", "content": content}),
        headers={"Content-Type": "application/json"},
    )
    assert made.ok, made.text()
    page.goto(address.geturl())
    page.wait_for_function(IDLE, timeout=START_MILLISECONDS)
    menu(page, "Run", "Run All Cells")
    page.wait_for_function(DONE, arg=len(sources), timeout=START_MILLISECONDS)
    assert page.evaluate(ERRORS) == []
    yield page
    context.close()
    assert not problems


def menu(page, name, entry):
    page.get_by_role("menubar").get_by_role("menuitem", name=name, exact=True).click()
    page.get_by_role("menuitem", name=entry, exact=True).click()


def shown(page, name):
    """The lab of this cell, in view."""
    found = page.locator(".jp-CodeCell").nth(1 + list(CELLS).index(name)).locator(".ad-lab")
    found.wait_for(timeout=START_MILLISECONDS)
    found.scroll_into_view_if_needed()
    return found


def lead(lab):
    return lab.locator("p.ad-strong-line")


def rows(lab):
    return {row.split("\t")[0].replace("▸", "").strip(): row.split("\t")[1:] for row in
            lab.locator("tbody tr").all_inner_texts()}  # fmt: skip


def test_ties_moves_an_entry_over_its_tie(notebook, picture):
    lab = shown(notebook, "ties")
    expect(lead(lab)).to_contain_text("there is a kink: the slope along x[1], x[2]")
    assert rows(lab)["each"] == ["[0, 1, 1]", "NOT VALID", "shares sum to 2 instead of 1"]
    expect(lab.get_by_role("img", name=re.compile("form a segment with corners"))).to_be_visible()
    slider = lab.get_by_role("slider", name="Value of x[1]")
    expect(slider).to_have_attribute("aria-valuetext", "3")
    slider.focus()
    notebook.keyboard.press("ArrowRight")
    expect(lead(lab)).to_contain_text("there is no kink")
    assert rows(lab)["each"] == ["[0, 1, 0]", "valid", "the only slope there is"]
    assert slider.get_attribute("aria-valuetext") != "3"
    notebook.keyboard.press("ArrowLeft")
    expect(lead(lab)).to_contain_text("there is a kink")
    lab.get_by_role("radio", name="x[0]").check()
    expect(lab.get_by_role("slider", name="Value of x[0]")).to_have_attribute("aria-valuetext", "1")
    lab.get_by_role("radio", name="x[1]").check()
    expect(lab.get_by_role("slider", name="Value of x[1]")).to_have_attribute("aria-valuetext", "3")


def test_detach_cuts_by_box_by_key_and_by_click(notebook):
    lab = shown(notebook, "detach")
    assert rows(lab)["x"] == ["Var", "1.5", "1.5", "unchanged"]
    box = lab.get_by_role("checkbox", name="3: n1 into n2 = x - n1, operand b")
    box.focus()
    notebook.keyboard.press("Space")
    expect(lead(lab)).to_contain_text("Cut: 3. The gradient of x changed.")
    assert rows(lab)["x"] == ["Var", "1.5", "3", "changed"] and rows(lab)["n1"] == ["result", "-3", "none", "vanished"]
    expect(lab.locator("svg")).to_contain_text("3 CUT")
    expect(box).to_be_focused()
    lab.locator("svg .edge .ad-hit").nth(3).click(force=True)
    expect(lead(lab)).to_contain_text("Cut: 3, 4. The gradient of x vanished.")
    expect(lab.get_by_role("checkbox", name=re.compile("^4: "))).to_be_checked()
    lab.get_by_role("checkbox", name=re.compile("^4: ")).uncheck()
    expect(lead(lab)).to_contain_text("Cut: 3. ")


def test_differences_shows_the_step_the_dtype_and_the_scheme(notebook):
    lab = shown(notebook, "differences")
    expect(lead(lab)).to_contain_text("float64, central, step 1e-6")
    slider = lab.get_by_role("slider", name="Step h")
    slider.focus()
    notebook.keyboard.press("End")
    expect(lead(lab)).to_contain_text("step 1: error 5e-1, most of it truncation")
    expect(lab.locator("tr[aria-current=true] th")).to_have_text("▸ 1")
    notebook.keyboard.press("Home")
    expect(lead(lab)).to_contain_text("step 1e-16: error 3, most of it rounding")
    lab.get_by_role("radio", name="float32").check()
    expect(lead(lab)).to_contain_text("float32, central")
    lab.get_by_role("radio", name="one-sided").check()
    expect(lead(lab)).to_contain_text("float32, one-sided")
    expect(lab.get_by_role("img", name=re.compile("float32, one-sided: a V"))).to_be_visible()


def test_broadcasting_says_what_does_not_fit_and_keeps_what_it_shows(notebook):
    lab = shown(notebook, "broadcasting")
    expect(lead(lab)).to_have_text("a (4, 3), b (3,) give a result of shape (4, 3).")
    field = lab.get_by_role("textbox", name="Shape of b")
    field.fill("4")
    field.press("Enter")
    expect(lab.get_by_role("alert")).to_contain_text("these shapes do not fit")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(lead(lab)).to_have_text("a (4, 3), b (3,) give a result of shape (4, 3).")
    field.fill("four")
    field.press("Enter")
    expect(lab.get_by_role("alert")).to_contain_text("'four' is not a whole number")
    field.fill("4,1")
    field.press("Enter")
    expect(lead(lab)).to_have_text("a (4, 3), b (4, 1) give a result of shape (4, 3).")
    assert rows(lab)["b"][3] == "g.sum(axis=1, keepdims=True)"
    expect(lab.locator(".ad-trouble")).to_be_hidden()
    expect(field).to_have_attribute("aria-invalid", "false")
    other = lab.get_by_role("textbox", name="Shape of a")
    other.fill("2,4,3")
    other.press("Enter")
    expect(lead(lab)).to_have_text("a (2, 4, 3), b (4, 1) give a result of shape (2, 4, 3).")
    assert rows(lab)["b"][3] == "g.sum(axis=2, keepdims=True).sum(axis=0)"
    other.fill("4,3")
    field.fill("3")
    field.press("Enter")
    expect(lead(lab)).to_have_text("a (4, 3), b (3,) give a result of shape (4, 3).")


def test_training_runs_live_and_is_stopped_by_button_and_by_interrupt(notebook, picture):
    lab = shown(notebook, "training")
    expect(lead(lab)).to_contain_text("30 epochs, loss 0.5897 before and 0.2302 now")
    start, stop = lab.get_by_role("button", name="Start"), lab.get_by_role("button", name="Stop")
    rate = lab.get_by_role("slider", name="Learning rate")
    rate.focus()
    notebook.keyboard.press("ArrowRight")
    expect(lab.locator(".ad-body")).to_contain_text("press Start")
    notebook.keyboard.press("ArrowLeft")
    epochs = lab.get_by_role("slider", name="Epochs")
    epochs.focus()
    notebook.keyboard.press("End")
    expect(epochs).to_have_attribute("aria-valuetext", "1000")
    for end in (lambda: stop.click(), lambda: notebook.evaluate(INTERRUPT)):
        start.click()
        bar = lab.get_by_role("progressbar")
        expect(lab.locator(".ad-progress span")).to_have_text(re.compile(r"epoch [1-9]\d* of 1000"))
        expect(lead(lab)).to_contain_text("running")
        expect(stop).to_have_attribute("aria-disabled", "false")
        before = bar.get_attribute("value")
        expect(bar).not_to_have_attribute("value", before)
        picture(notebook, "lab-training-live")
        end()
        expect(lead(lab)).to_contain_text(re.compile(r"stopped after \d+ of 1000 epochs"))
        expect(stop).to_have_attribute("aria-disabled", "true")
    epochs.focus()
    for _ in range(5):
        notebook.keyboard.press("ArrowLeft")
    expect(epochs).to_have_attribute("aria-valuetext", "30")
    start.click()
    expect(lead(lab)).to_contain_text("30 epochs, loss 0.5897 before and 0.2302 now", timeout=20_000)


def test_training_goes_by_its_batch_size_and_its_optimiser(notebook):
    lab = shown(notebook, "training")
    start, batch = lab.get_by_role("button", name="Start"), lab.get_by_role("slider", name="Batch size")
    batch.focus()
    notebook.keyboard.press("End")
    expect(batch).to_have_attribute("aria-valuetext", "200")
    expect(lab.locator(".ad-body")).to_contain_text("press Start")
    start.click()
    expect(lead(lab)).to_contain_text("SGD, learning rate 0.5, batch 200: 30 epochs", timeout=20_000)
    whole = lead(lab).inner_text()
    lab.get_by_role("radio", name="AdamW").check()
    expect(lab.locator(".ad-body")).to_contain_text("press Start")
    start.click()
    expect(lead(lab)).to_contain_text("AdamW, learning rate 0.5, batch 200: 30 epochs", timeout=20_000)
    assert lead(lab).inner_text().partition("loss")[2] != whole.partition("loss")[2]
    lab.get_by_role("radio", name="SGD").check()
    batch.focus()
    for _ in range(3):
        notebook.keyboard.press("ArrowLeft")
    expect(batch).to_have_attribute("aria-valuetext", "20")
    start.click()
    expect(lead(lab)).to_contain_text("batch 20: 30 epochs, loss 0.5897 before and 0.2302 now", timeout=20_000)


def test_checkpointing_counts_for_each_number_of_segments(notebook):
    lab = shown(notebook, "checkpointing")
    expect(lead(lab)).to_have_text(
        "8 segments of up to 8 steps: 16 values kept at once instead of 64, and 64 steps run again."
    )
    slider = lab.get_by_role("slider", name="Segments")
    slider.focus()
    notebook.keyboard.press("Home")
    expect(lead(lab)).to_contain_text("Everything stored: 64 values")
    for _ in range(4):
        notebook.keyboard.press("ArrowRight")
    expect(lead(lab)).to_contain_text("4 segments of up to 16 steps: 20 values")
    expect(lab.locator("tr[aria-current=true]")).to_contain_text("▸ 4")
    lab.get_by_role("button", name="Measure on this machine").click()
    expect(lab.locator(".ad-body")).to_contain_text(re.compile(r"4 segments: peak [\d,]+ KiB, [\d.]+ ms"))


def test_a_function_that_fails_leaves_what_is_shown(notebook):
    lab = shown(notebook, "own")
    before = lead(lab).inner_text()
    slider = lab.get_by_role("slider")
    value = slider.get_attribute("aria-valuetext")
    slider.focus()
    notebook.keyboard.press("Home")
    expect(lab.get_by_role("alert")).to_contain_text("NoRuleError: np.histogram has no rule")
    expect(slider).to_have_attribute("aria-valuetext", value)
    assert lead(lab).inner_text() == before


def test_everything_is_reached_by_tab_and_has_a_name(notebook):
    unnamed = notebook.evaluate("""() => {
        const all = document.querySelectorAll('.ad-lab input, .ad-lab select, .ad-lab button, .ad-lab [tabindex]');
        const named = e => e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim();
        return Array.from(all).filter(e => !named(e) || e.tabIndex < 0).map(e => e.outerHTML);
    }""")
    assert unnamed == []


@pytest.mark.parametrize("theme, width", [("Light", 1280), ("Dark", 1280), ("Light", 390), ("Dark", 390)])
def test_nothing_is_cut_off(notebook, picture, theme, width):
    notebook.set_viewport_size({"width": width, "height": 900})
    notebook.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", f"JupyterLab {theme}"
    )
    if width < 500:
        notebook.evaluate("window.jupyterapp.shell.collapseLeft()")
    for name in CELLS:
        lab = shown(notebook, name)
        notebook.wait_for_timeout(150)
        assert lab.evaluate("e => e.scrollWidth <= e.clientWidth + 1"), name
        assert lab.evaluate(SMALLEST_TEXT) >= 8.7, name
        lab.evaluate("e => e.scrollIntoView({block: 'start'})")
        picture(notebook, f"lab-{name}-{width}-{theme.lower()}")
