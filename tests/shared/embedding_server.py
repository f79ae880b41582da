"""An embedding endpoint that counts what it embeds, and can die, come back and answer out of order."""

import json
import math
import random
import threading
from collections import Counter
from typing import Any

from loopback import Asked, Loopback, Reply

DIMENSIONS = 64


class EmbeddingServer(Loopback):
    """Embeds a text as the sum of its words' directions, so that texts with words in common are near."""

    def __init__(self) -> None:
        self.listen()
        self.embedded: Counter[str] = Counter()
        """How often each text was embedded."""
        self.asked = 0
        self.answers_left: int | None = None
        """None: any number; 0: the endpoint is dead."""
        self.shuffled = False
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"{self.host}/v1"

    def reply(self, asked: Asked) -> Reply:
        answer = self.answer(json.loads(asked.body))
        body = answer or {"error": {"message": "down"}}
        return Reply(503 if answer is None else 200, json.dumps(body).encode())

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


def _vector(model: str, text: str) -> list[float]:
    total = [0.0] * DIMENSIONS
    for word in text.lower().split():
        chance = random.Random(f"{model} {word}")
        total = [value + chance.gauss(0, 1) for value in total]
    length = math.hypot(*total) or 1.0
    return [value / length for value in total]
