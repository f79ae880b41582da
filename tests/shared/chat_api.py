"""Scripted APIs of Chat Completions and of Gemini on loopback, as other agents ask them; streams only."""

import json
from typing import Any

from messages_api import Say, Turn
from responses_api import ResponsesApi

Json = dict[str, Any]


class ChatApi(ResponsesApi):
    """Answers a request that has tools with the next turn of the script, and others, as for a title, with a word."""

    def answer(self, path: str, body: Json) -> bytes | None:
        if path.endswith("/chat/completions"):
            number, turn = self.next_turn(body) if body.get("tools") else (0, Say("A title"))
            return b"".join(b"data: %s\n\n" % part for part in (_chunk(turn, number), _last(turn), b"[DONE]"))
        if ":streamGenerateContent" in path:
            _, turn = self.next_turn(body) if body.get("tools") else (0, Say("A title"))
            return b"data: %s\r\n\r\n" % json.dumps(_candidate(turn)).encode()
        return None

    def told(self, place: int) -> str:
        """Return all that request number `place` gave the model but its own words before, as JSON."""
        return json.dumps(self.requests[place].get("messages") or self.requests[place].get("contents"))


def _chunk(turn: Turn, number: int) -> bytes:
    delta: Json = {"role": "assistant"}
    if isinstance(turn, Say):
        delta["content"] = turn.text
    else:
        function = {"name": turn.tool, "arguments": json.dumps(turn.input)}
        delta["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    return _event({"index": 0, "delta": delta, "finish_reason": None})


def _last(turn: Turn) -> bytes:
    return _event({"index": 0, "delta": {}, "finish_reason": "stop" if isinstance(turn, Say) else "tool_calls"})


def _event(choice: Json) -> bytes:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": "mock-1"}
    return json.dumps({**head, "choices": [choice], "usage": usage}).encode()


def _candidate(turn: Turn) -> Json:
    part = {"text": turn.text} if isinstance(turn, Say) else {"functionCall": {"name": turn.tool, "args": turn.input}}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    content = {"role": "model", "parts": [part]}
    return {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}
