"""An embedding endpoint that counts what it embeds, and can die, come back and answer out of order."""

import json
import math
import random
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

DIMENSIONS = 64


class EmbeddingServer(ThreadingHTTPServer):
    """Embeds a text as the sum of its words' directions, so that texts with words in common are near."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.embedded: Counter[str] = Counter()
        """How often each text was embedded."""
        self.asked = 0
        self.answers_left: int | None = None
        """None: any number; 0: the endpoint is dead."""
        self.shuffled = False
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request; None where there is none."""
        texts: list[str] = asked["input"]
        with self._lock:
            self.asked += 1
            if self.answers_left == 0:
                return None
            self.answers_left = self.answers_left and self.answers_left - 1
            self.embedded.update(texts)
        data = [{"index": at, "embedding": _vector(asked["model"], text)} for at, text in enumerate(texts)]
        if self.shuffled:
            data.reverse()
        return {"object": "list", "model": asked["model"], "data": data, "usage": {"prompt_tokens": 1}}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        answer = cast(EmbeddingServer, self.server).answer(json.loads(self.rfile.read(length)))
        body = json.dumps(answer or {"error": {"message": "down"}}).encode()
        self.send_response(503 if answer is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def _vector(model: str, text: str) -> list[float]:
    total = [0.0] * DIMENSIONS
    for word in text.lower().split():
        draw = random.Random(f"{model} {word}")
        total = [value + draw.gauss(0, 1) for value in total]
    length = math.hypot(*total) or 1.0
    return [value / length for value in total]


@contextmanager
def serving_embeddings() -> Generator[EmbeddingServer]:
    """Serve in a thread while the block lasts."""
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
