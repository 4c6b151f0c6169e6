"""The first thing a newcomer does, in a real browser: open lesson 01, run all its cells, step the backward pass."""

import re

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: python deploy/bootstrap.py browser")
expect = sync_api.expect

pytestmark = pytest.mark.browser

LESSON = "notebooks/01_the_shared_node.ipynb"
START_MILLISECONDS = 90_000
RUN_MILLISECONDS = 120_000

# Read from JupyterLab's own model: a cell that is off screen is not in the page.
STATE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const model = panel?.content?.model;
    if (!model) return null;
    const cells = Array.from(model.cells).filter(cell => cell.type === 'code');
    return {
        kernel: panel.sessionContext?.session?.kernel?.status ?? 'none',
        cells: cells.map(cell => ({
            source: cell.sharedModel.getSource(),
            count: cell.executionCount,
            pending: cell.executionState !== undefined && cell.executionState !== 'idle',
            raises: (cell.getMetadata('tags') ?? []).includes('raises-exception'),
            outputs: cell.outputs.toJSON(),
        })),
    };
}"""

IDLE = f"() => ({STATE})()?.kernel === 'idle'"
# A cell that fails ends Run All Cells, and the rest would never get a number.
ENDED = f"""() => {{
    const state = ({STATE})();
    if (state?.kernel !== 'idle' || state.cells.length === 0) return false;
    const failed = cell => !cell.raises && cell.outputs.some(output => output.output_type === 'error');
    const ran = cell => cell.source.trim() === '' || (cell.count !== null && !cell.pending);
    return state.cells.some(failed) || state.cells.every(ran);
}}"""


@pytest.fixture
def lesson(page, lab, picture):
    """Lesson 01, opened with empty outputs and run by the menu: the page."""
    page.goto(lab(LESSON))
    page.wait_for_function(IDLE, timeout=START_MILLISECONDS)
    menu(page, "Edit", "Clear Outputs of All Cells")
    state = page.evaluate(STATE)
    assert state["cells"] and all(not cell["outputs"] for cell in state["cells"])
    menu(page, "Run", "Run All Cells")
    try:
        page.wait_for_function(ENDED, timeout=RUN_MILLISECONDS)
    finally:
        picture(page, "lesson01-run")
    return page


def menu(page, name, entry):
    page.get_by_role("menubar").get_by_role("menuitem", name=name, exact=True).click()
    page.get_by_role("menuitem", name=entry, exact=True).click()


def test_lesson_01_runs_shows_its_graph_and_steps(lesson, picture):
    state = lesson.evaluate(STATE)
    failed = [
        (cell["source"], output["ename"], output["evalue"])
        for cell in state["cells"]
        for output in cell["outputs"]
        if output["output_type"] == "error" and not cell["raises"]
    ]
    assert not failed
    assert all(cell["count"] for cell in state["cells"] if cell["source"].strip())
    unrendered = [cell["source"] for cell in state["cells"] for output in cell["outputs"] if is_bare_widget(output)]
    assert not unrendered, "a widget without a static form beside it"

    shows_a_drawing(lesson)
    picture(lesson, "lesson01-graph")
    steps_forwards_and_back(lesson, picture)


def shows_a_drawing(page):
    drawing = page.locator(".jp-CodeCell", has_text="ad.draw(L)").locator(".jp-RenderedSVG img").first
    drawing.scroll_into_view_if_needed()
    expect(drawing).to_be_visible()
    # A picture that the browser cannot read has no width of its own.
    assert drawing.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
    box = drawing.bounding_box()
    assert box["width"] > 200 and box["height"] > 100


def steps_forwards_and_back(page, picture):
    stepper = page.get_by_role("group", name=re.compile("^Stepper: ")).first
    stepper.wait_for(timeout=START_MILLISECONDS)
    stepper.scroll_into_view_if_needed()
    slider = stepper.get_by_role("slider", name="Step", exact=True)
    sentence = stepper.get_by_role("status").first
    marked = stepper.locator("svg .ad-now")

    expect(slider).to_have_value("0")
    said = [sentence.inner_text()]
    drawn = [stepper.locator("svg").first.inner_html()]
    picture(page, "lesson01-step0")
    for index in (1, 2, 3):
        stepper.get_by_role("button", name="Next step", exact=True).click()
        expect(slider).to_have_value(str(index))
        expect(marked.first).to_be_attached()
        said.append(sentence.inner_text())
        drawn.append(stepper.locator("svg").first.inner_html())
        picture(page, f"lesson01-step{index}")
    assert all(before != after for before, after in zip(said, said[1:], strict=False)), said
    assert all(before != after for before, after in zip(drawn, drawn[1:], strict=False))

    stepper.get_by_role("group", name=re.compile("^Drawing: ")).focus()
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_value("4")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_value("2")
    assert sentence.inner_text() == said[2] and stepper.locator("svg").first.inner_html() == drawn[2]

    stepper.get_by_role("button", name="Last step", exact=True).click()
    expect(slider).to_have_value(slider.get_attribute("max"))
    store = stepper.get_by_role("table", name="Gradient store").locator("tbody tr")
    assert {tuple(row.split()[-2:]) for row in store.all_inner_texts()} == {("x", "54"), ("y", "54")}
    picture(page, "lesson01-last-step")


def is_bare_widget(output):
    data = output.get("data", {})
    return "application/vnd.jupyter.widget-view+json" in data and len(data) == 1
