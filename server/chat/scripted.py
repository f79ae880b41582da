"""A chat model that gives prepared answers: for tests, demonstrations and runs that must be the same every time."""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from swarm_memory.schema.chat import ChatAnswer, ChatRequest
from swarm_memory.schema.errors import ModelError, ModelUnavailable
from swarm_memory.server.chat.exchange import Repair, Reply, exchange
from swarm_memory.server.chat.metering import ChatMeter, InMemoryMeter, Tally

ScriptedAnswer = str | dict[str, JsonValue] | ModelError
"""A text, an object that is sent as JSON, or the error that the call ends with."""


class ScriptedChatModel:
    """Gives `answers` one after the other; they are checked and repaired as a real model's, a repair taking the next.

    A token is counted as four characters. When the answers are used up it is unavailable.
    """

    is_local = True

    def __init__(
        self, answers: Sequence[ScriptedAnswer], *, name: str = "scripted:test", meter: ChatMeter | None = None
    ) -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        """Every request, in order; a repair is not one of its own."""
        self._answers = iter(answers)
        self._meter = meter or InMemoryMeter()

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Give the next answer. Raises what the script says."""
        self.requests.append(request)
        answer = await exchange(self.name, request, self._ask, self._meter, Tally())
        return answer.model_copy(update={"latency_ms": 0.0})

    async def _ask(self, request: ChatRequest, repair: Repair | None, tally: Tally) -> Reply:
        del repair
        answer = next(self._answers, None)
        if answer is None:
            raise ModelUnavailable(f"{self.name} has no answer left for call {len(self.requests)}.")
        tally.tries += 1
        if isinstance(answer, ModelError):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        tally.add((len(request.system) + len(request.user)) // 4, len(text) // 4)
        return Reply(text)
