// The stepper: shows one event of a backward pass at a time. The layout comes ready from Python; steps only restyle it.
// Everything that comes from the learner's names is inserted as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const PLAY_MILLISECONDS = 1200;
const SMALLEST_SCALE = 0.72; // below this the drawing scrolls instead of shrinking

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function parseDrawing(text) {
  if (!text) return null;
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.nodeName !== "svg") return null;
  for (const unwanted of parsed.querySelectorAll("script, foreignObject, style, a")) unwanted.remove();
  const svg = document.importNode(parsed, true);
  for (const element of [svg, ...svg.querySelectorAll("*")])
    for (const { name } of [...element.attributes]) if (name.startsWith("on")) element.removeAttribute(name);
  svg.querySelectorAll("title, desc").forEach((element) => element.remove());
  svg.querySelector("#graph0 > polygon")?.remove();
  return svg;
}

// A node's box, read from the shape itself: a widget is built before it is laid out, so its boxes are empty.
function boxOf(shape) {
  const numbers = (shape.getAttribute("d") ?? shape.getAttribute("points")).match(/-?\d+(\.\d+)?/g).map(Number);
  const [xs, ys] = [0, 1].map((odd) => numbers.filter((_, i) => i % 2 === odd));
  return { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
}

// How wide a text in the middle of an edge may be: up to the nearest box at its height.
function roomAt(text, boxes) {
  const [x, y] = ["x", "y"].map((name) => Number(text.getAttribute(name)));
  const beside = boxes.filter(({ top, bottom }) => top < y + 4 && y - 15 < bottom);
  const gaps = beside.map(({ left, right }) => Math.max(left - x, x - right)).filter((gap) => gap > 0);
  return 2 * (Math.min(...gaps) - 2); // the halo around the letters is 2 wide
}

// The layout was made for one font, and a machine may have a wider one: letters close up rather than leave their room.
function condense(texts) {
  for (const { text } of texts) text.removeAttribute("textLength");
  const wide = texts.filter(({ text, room }) => text.getComputedTextLength() > room); // lays out once, before any is set
  for (const { text, room } of wide) {
    text.setAttribute("textLength", room);
    text.setAttribute("lengthAdjust", "spacingAndGlyphs");
  }
}

// What a learner may type for a number: 36, -0.5, 1e-3, 18 + 36, 2*(9 - 1), 2**3, 1/3. NaN where it cannot be read.
function parseNumber(text) {
  const tokens = text.match(/(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|\*\*|[-+*/()]|\S/gi) ?? [];
  let at = 0;
  const accept = (...wanted) => (wanted.includes(tokens[at]) ? tokens[at++] : null);
  const sum = () => {
    let result = product();
    for (let sign; (sign = accept("+", "-")); ) result += sign === "+" ? product() : -product();
    return result;
  };
  const product = () => {
    let result = signed();
    for (let sign; (sign = accept("*", "/")); ) result = sign === "*" ? result * signed() : result / signed();
    return result;
  };
  const signed = () => (accept("-") ? -signed() : accept("+") ? signed() : power());
  const power = () => {
    const base = atom();
    return accept("**") ? base ** signed() : base;
  };
  const atom = () => {
    if (!accept("(")) return /^[\d.]/.test(tokens[at]) ? Number(tokens[at++]) : NaN;
    const inner = sum();
    return accept(")") ? inner : NaN;
  };
  const result = sum();
  return at === tokens.length && Number.isFinite(result) ? result : NaN;
}

// So many numbers as they were typed, or null where they cannot be read.
function parseNumbers(typed, count) {
  const text = typed.split("=").pop().replace(/[\u2212\u2013]/g, "-").replace(/[\u00d7\u00b7]/g, "*").replace(/\^/g, "**");
  // A comma is the point in 0,5; in 1,000 nobody can tell.
  if (count === 1 && /[1-9]\d*,\d{3}(?!\d)/.test(text)) return null;
  const flat = text.replace(/[[\]]/g, " ");
  const ways = count === 1 ? [[flat.replace(/(\d),(?=\d)/g, "$1.")]]
    : [flat, flat.replace(/[()]/g, " ")].flatMap((t) => [t.split(/[,;]/), t.split(/[\s,;]+/)]);
  for (const words of ways) {
    const numbers = words.filter((word) => word.trim()).map(parseNumber);
    if (numbers.length === count && !numbers.some(Number.isNaN)) return numbers;
  }
  return null;
}

// Whole numbers must be met, others to three digits.
function matches(given, expected) {
  return expected.every((e, i) => {
    const whole = Math.abs(e) < 1e10 && Math.abs(e - Math.round(e)) <= 1e-9 * Math.abs(e);
    return Math.abs(given[i] - e) <= (whole ? 2e-9 * Math.max(1, Math.abs(e)) : 0.002 * Math.abs(e) + 1e-9);
  });
}

class Stepper {
  constructor(model, el) {
    this.model = model;
    this.data = model.get("data");
    this.last = this.data.steps.length - 1;
    this.index = Math.min(Math.max(model.get("index"), 0), this.last);
    this.answered = new Map(); // step -> whether the prediction was right
    this.selected = "";
    this.timer = null;
    this.build(el);
    this.show();
    this.followIndex = () => this.go(model.get("index"), true);
    model.on("change:index", this.followIndex);
  }

  build(el) {
    const button = (text, label, act) => {
      const b = make("button", { type: "button", "aria-label": label, title: label }, text);
      b.addEventListener("click", act);
      return b;
    };
    this.first = button("«", "First step", () => this.go(0));
    this.previous = button("‹ Back", "Previous step", () => this.go(this.index - 1));
    this.play = button("Play", "Play", () => this.togglePlay());
    this.next = button("Next ›", "Next step", () => this.advance());
    this.end = button("»", "Last step", () => this.go(this.last));
    this.slider = make("input", { type: "range", min: 0, max: this.last, step: 1, "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.counter = make("span", { class: "ad-counter" });
    this.predict = make("input", { type: "checkbox" });
    this.predict.checked = this.model.get("predict");
    this.predict.addEventListener("change", () => {
      this.model.set("predict", this.predict.checked);
      this.model.save_changes();
      this.answered.clear();
      this.show();
    });
    const bar = make("div", { class: "ad-bar", role: "toolbar", "aria-label": "Steps" },
      this.first, this.previous, this.play, this.next, this.end, this.slider, this.counter,
      make("label", { class: "ad-predict" }, this.predict, " Predict"));

    this.picture = make("div", { class: "ad-picture", tabindex: "0", role: "group",
      "aria-label": `Drawing: ${this.data.title}. Arrow keys step.` });
    this.buildDrawing();

    this.sentence = make("p", { class: "ad-sentence", "aria-live": "polite", role: "status" });
    this.formula = make("p", { class: "ad-formula" });
    this.rule = make("pre", { class: "ad-rule", "aria-label": "The rule as it is written" });
    this.question = this.buildQuestion();
    this.verdict = make("p", { class: "ad-verdict", "aria-live": "polite" });
    const event = make("div", { class: "ad-event" }, this.sentence, this.question, this.verdict, this.formula, this.rule);

    this.rows = make("tbody");
    const store = make("table", { class: "ad-store" },
      make("caption", {}, this.data.store),
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "node"), make("th", { scope: "col" }, "gradient"))),
      this.rows);
    this.chooser = make("select", { "aria-label": "Node to look at" }, make("option", { value: "" }, "look at a node"));
    for (const node of this.data.nodes) this.chooser.append(make("option", { value: node.key }, node.title));
    this.chooser.addEventListener("change", () => this.select(this.chooser.value));
    this.details = make("div", { class: "ad-details", "aria-live": "polite" });
    const side = make("div", { class: "ad-side" }, store, this.chooser, this.details);

    this.root = make("div", { class: "ad-stepper", role: "group", "aria-label": `Stepper: ${this.data.title}` },
      bar, event, make("div", { class: "ad-main" }, this.picture, side));
    // The notebook binds arrows and letters to the element that has the focus, so each such element opts out.
    for (const element of this.root.querySelectorAll("button, input, select, [tabindex]"))
      element.dataset.lmSuppressShortcuts = "true";
    this.root.addEventListener("keydown", (press) => this.onKey(press));
    el.append(this.root);
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.picture);
  }

  buildDrawing() {
    this.svg = parseDrawing(this.model.get("svg"));
    this.nodes = new Map();
    this.edges = new Map();
    this.texts = [];
    if (!this.svg) {
      this.picture.append(make("pre", {}, this.data.listing));
      return;
    }
    const box = this.svg.viewBox.baseVal;
    const pad = 18; // room for the tag above a node at the upper border
    this.svg.setAttribute("viewBox", `${box.x} ${box.y - pad} ${box.width} ${box.height + pad}`);
    this.natural = { width: (box.width * 4) / 3, height: ((box.height + pad) * 4) / 3 };
    this.svg.removeAttribute("width");
    this.svg.removeAttribute("height");
    this.svg.setAttribute("role", "presentation");
    this.picture.append(this.svg);
    const boxes = [];
    for (const node of this.data.nodes) {
      const group = this.svg.querySelector(`[id="${node.key}"]`);
      if (!group) continue;
      const texts = group.querySelectorAll("text");
      group.dataset.kind = node.kind;
      group.setAttribute("role", "button");
      group.setAttribute("aria-label", node.value === null ? node.title : `${node.title}, ${node.value}`);
      group.addEventListener("click", () => this.select(node.key === this.selected ? "" : node.key));
      const tag = document.createElementNS(SVG, "text");
      const box = boxOf(group.querySelector("path, polygon"));
      for (const text of texts) this.texts.push({ text, room: box.right - box.left - 8 });
      tag.setAttribute("x", box.left + 2);
      tag.setAttribute("y", box.top - 5);
      tag.setAttribute("class", "ad-tag");
      group.append(tag);
      boxes.push(box);
      this.nodes.set(node.key, { group, tag, grad: node.grad_line === null ? null : texts[node.grad_line] });
    }
    for (const edge of this.data.edges) {
      const group = this.svg.querySelector(`[id="${edge.key}"]`);
      if (!group) continue;
      let text = group.querySelector("text");
      if (!text) {
        const path = group.querySelector("path");
        const middle = path.getPointAtLength(path.getTotalLength() / 2);
        text = document.createElementNS(SVG, "text");
        text.setAttribute("x", middle.x);
        text.setAttribute("y", middle.y - 6);
        group.append(text);
      }
      text.setAttribute("class", "ad-share");
      text.setAttribute("text-anchor", "middle");
      this.texts.push({ text, room: roomAt(text, boxes) });
      this.edges.set(edge.key, { group, text, plain: edge.label });
    }
  }

  buildQuestion() {
    this.answer = make("input", { type: "text", "aria-label": "Your number", size: "14", autocomplete: "off" });
    const check = make("button", { type: "submit" }, "Check");
    const reveal = make("button", { type: "button" }, "Show it");
    reveal.addEventListener("click", () => this.reveal(null));
    const form = make("form", { class: "ad-question" }, this.answer, check, reveal);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { expected } = this.data.steps[this.index];
      const numbers = parseNumbers(this.answer.value, expected.length);
      if (numbers) this.reveal(numbers);
      else if (this.answer.value.trim()) this.askAgain(expected.length);
    });
    return form;
  }

  fit() {
    if (!this.svg) return;
    const room = this.picture.clientWidth - 16;
    const scale = Math.max(Math.min(room / this.natural.width, 1), SMALLEST_SCALE);
    this.svg.style.width = `${this.natural.width * scale}px`;
    this.svg.style.height = `${this.natural.height * scale}px`;
    condense(this.texts);
  }

  onKey(press) {
    const { key, target } = press;
    if (press.ctrlKey || press.metaKey || press.altKey) return;
    if (target === this.answer || target === this.chooser) {
      press.stopPropagation();
      return;
    }
    const acts = {
      ArrowRight: () => this.advance(),
      ArrowLeft: () => this.go(this.index - 1),
      Home: () => this.go(0),
      End: () => this.go(this.last),
    };
    if (!["BUTTON", "INPUT"].includes(target.nodeName)) acts[" "] = () => this.togglePlay();
    if (key in acts) {
      acts[key]();
      press.preventDefault();
      press.stopPropagation();
    }
  }

  asks(index) {
    return this.predict.checked && this.data.steps[index].expected !== null && !this.answered.has(index);
  }

  // One step on; where a prediction is asked for, the second time shows the number.
  advance() {
    if (this.asks(this.index)) this.reveal(null);
    else this.go(this.index + 1);
  }

  askAgain(count) {
    this.verdict.textContent = `That could not be read. Write ${
      count === 1 ? "one number, or a sum such as 18 + 36" : `${count} numbers with commas between them`}.`;
    this.answer.focus({ preventScroll: true });
  }

  reveal(numbers) {
    const step = this.data.steps[this.index];
    const right = numbers !== null && matches(numbers, step.expected);
    this.answered.set(this.index, right);
    const given = this.answer.value.trim();
    this.show();
    const score = [...this.answered.values()];
    const count = `${score.filter(Boolean).length} of ${score.length} predicted.`;
    this.verdict.textContent =
      (right ? `Yes, ${step.number}. ` : numbers === null ? `It is ${step.number}. ` : `You wrote ${given}; it is ${step.number}. `) + count;
    this.picture.focus({ preventScroll: true });
  }

  go(index, fromModel = false) {
    const target = Math.min(Math.max(index, 0), this.last);
    if (target === this.index) return;
    this.index = target;
    if (!fromModel) {
      this.model.set("index", target);
      this.model.save_changes();
    }
    this.show();
    if (this.asks(target) && !fromModel) {
      this.pause();
      if (this.root.contains(this.root.getRootNode().activeElement)) this.answer.focus({ preventScroll: true });
    }
  }

  togglePlay() {
    if (this.timer !== null) return this.pause();
    if (this.index === this.last) this.go(0);
    this.play.textContent = "Pause";
    this.play.setAttribute("aria-label", "Pause");
    this.play.title = "Pause";
    this.timer = setInterval(() => {
      if (this.index === this.last || this.asks(this.index)) this.pause();
      else this.go(this.index + 1);
    }, PLAY_MILLISECONDS);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
    this.play.setAttribute("aria-label", "Play");
    this.play.title = "Play";
  }

  select(key) {
    this.selected = key;
    this.chooser.value = key;
    this.show();
  }

  show() {
    const { steps } = this.data;
    const step = steps[this.index];
    const hidden = this.asks(this.index);
    const known = hidden ? this.index - 1 : this.index;
    const store = new Map();
    const grads = new Map();
    const shares = new Map();
    for (const { change, kind, edge, brief } of steps.slice(0, known + 1)) {
      if (kind === "contribution") shares.set(edge, brief);
      if (!change) continue;
      if (change.text === null) store.delete(change.key);
      else {
        store.set(change.key, change);
        // The drawing has this pass's gradients; what earlier passes left shows in the store alone.
        if (kind !== "zero" && kind !== "keep") grads.set(change.key, change.brief);
      }
    }
    if (hidden && step.kind === "contribution") shares.set(step.edge, "?");

    this.slider.value = this.index;
    this.slider.setAttribute("aria-valuetext", `step ${this.index} of ${this.last}, ${step.kind}`);
    this.counter.textContent = `${this.index} / ${this.last} ${step.kind}`;
    // A disabled button would lose the keyboard's focus.
    const dim = (button, off) => button.setAttribute("aria-disabled", off);
    dim(this.first, this.index === 0);
    dim(this.previous, this.index === 0);
    dim(this.end, this.index === this.last);
    dim(this.next, this.index === this.last && !hidden);

    this.sentence.textContent = hidden ? step.question : step.text;
    this.formula.textContent = hidden ? step.hidden : step.formula;
    this.rule.textContent = step.source ? `${step.op}, operand ${step.operand}:  ${step.source}` : "";
    this.question.hidden = !hidden;
    this.answer.value = "";
    this.verdict.textContent = "";

    this.rows.replaceChildren(...[...store.values()].map((change) => {
      const fresh = !hidden && step.change?.key === change.key;
      const row = make("tr", fresh ? { class: "ad-fresh" } : {}, make("td", {}, change.name), make("td", {}, change.text));
      if (fresh) row.firstChild.prepend("▸ ");
      return row;
    }));
    if (!store.size) this.rows.append(make("tr", {}, make("td", { colspan: 2, class: "ad-empty" }, "empty")));
    if (!hidden && step.kind === "take" && step.change.text === null)
      this.rows.append(make("tr", { class: "ad-taken" }, make("td", {}, step.change.name), make("td", {}, `${step.number} taken out`)));

    this.mark(step, hidden, grads, shares);
    this.describe(known, grads);
  }

  mark(step, hidden, grads, shares) {
    for (const [key, { group, tag, grad }] of this.nodes) {
      const now = key === step.node;
      const receives = step.input === key;
      group.classList.toggle("ad-now", now);
      group.classList.toggle("ad-receives", receives);
      group.classList.toggle("ad-selected", key === this.selected);
      tag.textContent = now ? (step.input && !receives ? "from" : step.kind) : receives ? "to" : "";
      if (grad) grad.textContent = grads.has(key) ? `grad ${grads.get(key)}` : "";
    }
    for (const [key, { group, text, plain }] of this.edges) {
      group.classList.toggle("ad-now", key === step.edge);
      group.classList.toggle("ad-done", key !== step.edge && shares.has(key));
      text.textContent = shares.has(key) ? `${plain ? `${plain}: ` : ""}${shares.get(key)}` : plain;
      if (key === step.edge && step.kind === "skip") text.textContent = `${plain ? `${plain}, ` : ""}skipped`;
    }
    condense(this.texts);
    // The last is surely in view. Of an edge that is longer than the picture, one place matters at each step.
    const edge = this.edges.get(step.edge);
    const place = step.kind === "contribution" ? edge?.text : this.nodes.get(step.kind === "accumulate" ? step.input : step.node)?.group;
    for (const part of [edge && this.holds(edge.group) ? edge.group : null, place]) if (part) this.bringIntoView(part);
  }

  holds(element) {
    const { width, height } = element.getBoundingClientRect();
    return width <= this.picture.clientWidth && height <= this.picture.clientHeight;
  }

  bringIntoView(element) {
    const inner = element.getBoundingClientRect();
    const outer = this.picture.getBoundingClientRect();
    const shift = (low, high, from, to) => (low < from ? low - from - 20 : high > to ? high - to + 20 : 0);
    this.picture.scrollLeft += shift(inner.left, inner.right, outer.left, outer.right);
    this.picture.scrollTop += shift(inner.top, inner.bottom, outer.top, outer.bottom);
  }

  describe(known, grads) {
    const node = this.data.nodes.find(({ key }) => key === this.selected);
    this.details.replaceChildren();
    if (!node) return;
    const line = (...parts) => this.details.append(make("p", {}, ...parts));
    line(make("strong", {}, node.title));
    if (node.value !== null) line(`value ${node.value}${node.shape === "()" ? "" : `, shape ${node.shape}`}`);
    for (const note of node.notes) line(note);
    if (node.kind === "folded") return;
    for (const { operand, name, source } of node.rules) line(`to ${name} (operand ${operand}): `, make("code", {}, source));
    const terms = node.terms.map(({ step, text, name }) => `${step <= known ? text : "?"} (from ${name})`);
    const total = grads.has(node.key) && node.terms.every(({ step }) => step < known + 1);
    if (node.terms.length === 0) line(grads.has(node.key) ? `gradient ${node.grad}` : "no gradient");
    else line(`gradient ${terms.join(" + ")}${total ? ` = ${node.grad}` : " = ?"}`);
  }

  close() {
    this.pause();
    this.resize.disconnect();
    this.model.off("change:index", this.followIndex);
  }
}

function render({ model, el }) {
  const stepper = new Stepper(model, el);
  return () => stepper.close();
}

export default { render };
