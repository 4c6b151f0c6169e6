"""Serve the site on this machine alone, to look at it before it is published: make lite ARGS=--serve."""

import functools
import http.server
import sys


class Handler(http.server.SimpleHTTPRequestHandler):
    """Plain files. The browser asks whether one has changed, so that a new build is seen at once."""

    # The registry of Windows may call scripts plain text, which a browser does not run as modules.
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript",
                      ".mjs": "text/javascript", ".wasm": "application/wasm", ".json": "application/json",
                      ".ipynb": "application/json"}  # fmt: skip

    def end_headers(self):
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # a browser that is closed hangs up in the middle


def serve(site, port):
    """Until Ctrl-C; gives the exit status."""
    try:
        server = Server(("127.0.0.1", port), functools.partial(Handler, directory=site))
    except OSError as error:
        print(f"Port {port} cannot be used ({error.strerror}); name another: --serve {port + 1}", file=sys.stderr)
        return 1
    with server:
        print(f"Open http://127.0.0.1:{server.server_port}/ in a browser. Ctrl-C ends the server.", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
