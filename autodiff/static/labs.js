// A lab: Python sends what there is to see, and gets told which control was moved. Everything is inserted as text.

// Below this a picture scrolls instead of shrinking; the text of a graph is larger than that of a plot.
const SMALLEST = { graph: 0.72, plot: 0.8 };
const FEW = 4; // options up to this many are shown at once
const MANY = 12; // boxes above this many scroll, so that the picture stays in sight

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function parsePicture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.localName !== "svg") return null;
  for (const unwanted of parsed.querySelectorAll("script, foreignObject, style, a")) unwanted.remove();
  const svg = document.importNode(parsed, true);
  for (const element of [svg, ...svg.querySelectorAll("*")])
    for (const { name } of [...element.attributes]) if (name.startsWith("on")) element.removeAttribute(name);
  svg.querySelectorAll("title, desc").forEach((element) => element.remove());
  svg.querySelector("#graph0 > polygon")?.remove();
  return svg;
}

// Each kind of control: its element, and how a newer state of it is shown without losing the keyboard's focus.
const KINDS = {
  slider(control, send) {
    const range = make("input", { type: "range", min: 0, step: 1, "aria-label": control.label });
    const output = make("output");
    let texts = control.texts;
    const say = () => {
      output.textContent = texts[range.value] ?? "";
      range.setAttribute("aria-valuetext", output.textContent);
    };
    range.addEventListener("input", () => {
      say();
      send(Number(range.value));
    });
    const name = make("span", { class: "ad-name" }, control.label);
    const element = make("div", { class: "ad-control ad-wide" }, name, make("div", { class: "ad-sliding" }, range, output));
    const update = (state, pending) => {
      texts = state.texts;
      name.textContent = state.label;
      range.setAttribute("aria-label", state.label);
      range.max = texts.length - 1;
      if (!pending) range.value = state.value;
      say();
    };
    return { element, update };
  },

  choice(control, send) {
    if (control.options.length > FEW) return menu(control, send);
    const inputs = control.options.map((option) => {
      const input = make("input", { type: "radio", name: `${control.name}-${Math.random()}`, value: option });
      input.addEventListener("change", () => send(option));
      return input;
    });
    inputs.forEach((input) => (input.name = inputs[0].name));
    const options = make("div", { class: "ad-options" });
    control.options.forEach((option, i) => options.append(make("label", {}, inputs[i], option)));
    const element = make("fieldset", { class: "ad-control" }, make("legend", { class: "ad-name" }, control.label), options);
    const update = (state, pending) => {
      if (!pending) inputs.forEach((input) => (input.checked = input.value === state.value));
    };
    return { element, update };
  },

  checks(control, send, point) {
    const inputs = control.options.map((option) => {
      const input = make("input", { type: "checkbox" });
      input.addEventListener("change", () => send(control.options.filter((_, i) => inputs[i].checked).map((o) => o.value)));
      input.addEventListener("focus", () => point(option.part));
      input.addEventListener("blur", () => point(null));
      return input;
    });
    const many = control.options.length > MANY;
    const options = make("div", { class: many ? "ad-options ad-many" : "ad-options" });
    control.options.forEach((option, i) => {
      const label = make("label", {}, inputs[i], option.text);
      label.addEventListener("pointerenter", () => point(option.part));
      label.addEventListener("pointerleave", () => point(null));
      options.append(label);
    });
    const element = make("fieldset", { class: "ad-control ad-wide" },
      make("legend", { class: "ad-name" }, control.label), options);
    const update = (state, pending) => {
      if (!pending) control.options.forEach((o, i) => (inputs[i].checked = state.value.includes(o.value)));
    };
    const toggle = (value) => {
      const input = inputs[control.options.findIndex((o) => o.value === value)];
      if (!input) return;
      const { offsetTop: top, offsetHeight: height } = input.parentElement;
      if (many) options.scrollTop = top - options.offsetTop - (options.clientHeight - height) / 2;
      input.click();
    };
    return { element, update, toggle };
  },

  text(control, send) {
    const input = make("input", { type: "text", "aria-label": control.label, placeholder: control.hint, autocomplete: "off",
      spellcheck: "false" });
    input.value = input.dataset.sent = control.value;
    const commit = () => {
      if (input.value !== input.dataset.sent) send((input.dataset.sent = input.value));
    };
    input.addEventListener("change", commit);
    input.addEventListener("keydown", (press) => press.key === "Enter" && commit());
    const element = make("label", { class: "ad-control" }, make("span", { class: "ad-name" }, control.label), input);
    // What was typed and could not be used stays, to be corrected.
    const update = (state, pending, trouble) => {
      if (!pending && !trouble && element.ownerDocument.activeElement !== input) input.value = input.dataset.sent = state.value;
      input.setAttribute("aria-invalid", Boolean(trouble) && input.dataset.sent !== state.value);
    };
    return { element, update };
  },

  button(control, send) {
    const element = make("button", { type: "button" }, control.label);
    element.addEventListener("click", () => element.getAttribute("aria-disabled") !== "true" && send(true));
    // A disabled button would lose the keyboard's focus.
    const update = (state) => {
      element.textContent = state.label;
      element.setAttribute("aria-disabled", !state.on);
    };
    return { element, update };
  },
};

function menu(control, send) {
  const select = make("select", { "aria-label": control.label });
  for (const option of control.options) select.append(make("option", { value: option }, option));
  select.addEventListener("change", () => send(select.value));
  const element = make("label", { class: "ad-control" }, make("span", { class: "ad-name" }, control.label), select);
  const update = (state, pending) => {
    if (!pending) select.value = state.value;
  };
  return { element, update };
}

class Lab {
  constructor(model, el) {
    this.model = model;
    this.count = model.get("view").count;
    this.waiting = false; // whether Python still owes an answer
    this.pending = new Map(); // control -> the value it was moved to since
    this.build(el);
    this.follow = () => this.receive();
    model.on("change:view", this.follow);
    this.receive();
  }

  build(el) {
    const view = this.model.get("view");
    this.controls = new Map();
    const bar = make("div", { class: "ad-controls" });
    for (const control of view.controls) {
      const built = KINDS[control.kind](control, (value) => this.ask(control.name, value), (part) => this.point(part));
      this.controls.set(control.name, built);
      bar.append(built.element);
    }
    this.trouble = make("p", { class: "ad-trouble", role: "alert" });
    this.status = make("p", { class: "ad-said", role: "status", "aria-live": "polite" });
    this.status.style.cssText = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0";
    this.body = make("div", { class: "ad-body" });
    this.root = make("div", { class: "ad-stepper ad-lab", role: "group", "aria-label": view.title,
      "data-lm-suppress-shortcuts": "true" },
      make("h3", {}, view.title), bar, this.trouble, this.status, this.body);
    // The notebook has keys of its own.
    this.root.addEventListener("keydown", (press) => {
      if (!press.ctrlKey && !press.metaKey && !press.altKey && press.key !== "Escape") press.stopPropagation();
    });
    el.append(this.root);
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.body);
  }

  ask(name, value) {
    this.pending.set(name, value);
    this.flush();
  }

  // One question at a time: a slider that is dragged must not fill a queue.
  flush() {
    if (this.waiting || !this.pending.size) return;
    this.count += 1;
    this.waiting = true;
    this.model.set("asked", { count: this.count, values: Object.fromEntries(this.pending) });
    this.pending.clear();
    this.model.save_changes();
  }

  receive() {
    const view = this.model.get("view");
    if (view.count >= this.count) {
      this.count = view.count;
      this.waiting = false;
    }
    for (const control of view.controls)
      this.controls.get(control.name)?.update(control, this.pending.has(control.name) || this.waiting, view.trouble);
    if (this.trouble.textContent !== view.trouble) this.trouble.textContent = view.trouble;
    if (this.status.textContent !== view.says) this.status.textContent = view.says;
    this.body.replaceChildren(...this.blocks(view.blocks));
    this.fit();
    this.flush();
  }

  blocks(blocks) {
    const elements = [];
    let row = null; // pictures that follow each other stand side by side
    this.parts = new Map();
    for (const block of blocks) {
      if (block.kind === "picture") {
        if (!row) elements.push((row = make("div", { class: "ad-row" })));
        row.append(this.picture(block));
        continue;
      }
      row = null;
      if (block.kind === "text") elements.push(make("p", { class: block.strong ? "ad-line ad-strong-line" : "ad-line" }, block.text));
      if (block.kind === "table") elements.push(this.table(block));
      if (block.kind === "progress") {
        const bar = make("progress", { max: Math.max(block.most, 1), value: block.value, "aria-label": block.label });
        elements.push(make("div", { class: "ad-progress" }, bar, make("span", {}, block.label)));
      }
    }
    return elements;
  }

  table({ caption, header, rows, current }) {
    const body = make("tbody");
    rows.forEach((cells, i) => {
      const row = make("tr", i === current ? { class: "ad-current", "aria-current": "true" } : {});
      cells.forEach((cell, column) => row.append(make(column ? "td" : "th", column ? {} : { scope: "row" },
        column === 0 && i === current ? `▸ ${cell}` : cell)));
      body.append(row);
    });
    const head = make("tr", {}, ...header.map((name) => make("th", { scope: "col" }, name)));
    return make("div", { class: "ad-scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", { class: "ad-numbers" }, make("caption", {}, caption), make("thead", {}, head), body));
  }

  picture({ svg: text, label, control, parts }) {
    const drawn = control !== undefined;
    const figure = make("div", { class: drawn ? "ad-figure ad-picture" : "ad-figure", role: "img", "aria-label": label });
    const svg = text && parsePicture(text);
    if (!svg) {
      figure.append(make("p", {}, label));
      return figure;
    }
    const box = svg.viewBox.baseVal;
    const inches = drawn ? 4 / 3 : 1; // Graphviz counts in points
    figure.natural = [box.width * inches, box.height * inches];
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.setAttribute("role", "presentation");
    figure.append(svg);
    for (const [part, value] of Object.entries(parts ?? {})) {
      const group = svg.querySelector(`[id="${CSS.escape(part)}"]`);
      const path = group?.querySelector("path");
      if (!path) continue;
      const hit = path.cloneNode();
      hit.setAttribute("class", "ad-hit");
      group.append(hit);
      group.style.cursor = "pointer";
      group.addEventListener("click", () => this.controls.get(control).toggle(value));
      this.parts.set(part, group);
    }
    return figure;
  }

  point(part) {
    for (const [name, group] of this.parts) group.classList.toggle("ad-pointed", name === part);
  }

  fit() {
    for (const figure of this.body.querySelectorAll(".ad-figure")) {
      if (!figure.natural) continue;
      const graph = figure.classList.contains("ad-picture");
      const room = this.body.clientWidth - (graph ? 18 : 0);
      const smallest = graph ? SMALLEST.graph : SMALLEST.plot;
      const scale = Math.max(Math.min(room / figure.natural[0], 1), smallest);
      const svg = figure.querySelector("svg");
      if (graph || figure.natural[0] * scale > room) figure.tabIndex = 0; // it scrolls
      else figure.removeAttribute("tabindex");
      svg.style.width = `${figure.natural[0] * scale}px`;
      svg.style.height = `${figure.natural[1] * scale}px`;
    }
  }

  close() {
    this.resize.disconnect();
    this.model.off("change:view", this.follow);
  }
}

function render({ model, el }) {
  const lab = new Lab(model, el);
  return () => lab.close();
}

export default { render };
