"""A chat model in front of a scripted endpoint, and what it is asked."""

from collections.abc import Callable

from pydantic import JsonValue
from scripted_chat import InMemoryMeter
from scripted_server import ScriptedServer

from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.tools.ports.models import ChatModel, ChatRequest

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["Success", "Failure"]}},
    "required": ["label"],
    "additionalProperties": False,
}


def request(timeout_s: float = 100.0, **changes: object) -> ChatRequest:
    plain = ChatRequest(purpose="judge", system="You judge.", user="The trajectory.", timeout_s=timeout_s)
    return plain.model_copy(update={"answer_schema": SCHEMA, **changes})


class Bench:
    """The model `m-1` of a provider at a scripted server, with pauses that are written down and not waited for."""

    def __init__(self, build: Callable[..., ChatModel], key: str, server: ScriptedServer, **settings: object) -> None:
        self.pauses: list[float] = []
        self.meter = InMemoryMeter()
        told = ChatProviderSettings.model_validate({"model": "m-1", "base_url": server.url, **settings})
        self.model = build(told, key, self.meter, retries=2, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
