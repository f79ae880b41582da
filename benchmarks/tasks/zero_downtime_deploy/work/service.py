"""The service in all its versions: `python service.py VERSION PORT`."""

import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WARM_S = 0.6
RUNNING = Path(__file__).resolve().parent / "running"
"""Each service that runs has a file here, named by its port, that holds its process id."""


class Handler(BaseHTTPRequestHandler):
    """Answers when it is warm."""

    version = "?"
    started = time.monotonic()

    def do_GET(self) -> None:
        ready = time.monotonic() - self.started > WARM_S and not self.version.startswith("sick")
        if self.path == "/health" or not ready:
            self._send(200 if ready else 503, "ok" if ready else "not ready")
        else:
            time.sleep(0.05)
            self._send(200, self.version)

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Handler.version, port = sys.argv[1], int(sys.argv[2])
    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        RUNNING.mkdir(exist_ok=True)
        (RUNNING / str(port)).write_text(str(os.getpid()), encoding="ascii")
        server.serve_forever()
