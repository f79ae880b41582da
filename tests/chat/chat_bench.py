"""A chat model that talks to a scripted endpoint, and the request that it gets."""

from pydantic import JsonValue
from scripted_chat import InMemoryMeter
from scripted_server import ScriptedServer

from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.openai import OpenAIChatModel
from swarm_memory.tools.ports.models import ChatRequest

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["Success", "Failure"]}},
    "required": ["label"],
    "additionalProperties": False,
}


def request(timeout_s: float = 100.0, **changes: object) -> ChatRequest:
    asked = {"purpose": "judge", "system": "You judge.", "user": "The trajectory.", "answer_schema": SCHEMA}
    return ChatRequest.model_validate({**asked, "timeout_s": timeout_s, **changes})


class Bench:
    """The model `m-1` of a provider, on a scripted server."""

    def __init__(self, key: str, server: ScriptedServer, *, retries: int = 2, **settings: object) -> None:
        self.meter = InMemoryMeter()
        given = {"provider": "openai", "model": "m-1", "base_url": f"{server.url}/v1", **settings}
        self.model = OpenAIChatModel(ChatProviderSettings.model_validate(given), key, self.meter, retries=retries)
