"""Passages put into their final order by a chat model or a cross-encoder, and how each of them fails."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from scripted_chat import ScriptedChatModel

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.ports.models import Ranked, RerankCandidate
from swarm_memory.tools.retrieve.rerank import Order, reordered
from swarm_memory.tools.toolbox import Toolbox

SHOWN = [
    ("Pin the lock file", "", "Run the resolver with the lock file."),
    ("Retry the migration", "", "The first run may time out."),
    ("Retry the migration", "", "Another note of that title."),
]


def scores(*pairs: tuple[str, float]) -> dict[str, Any]:
    given = [{"tool_name": name, "relevance_score": score, "justification": "so"} for name, score in pairs]
    return {"scores": given, "selected_tools": []}


class Quick:
    """A reranker that leaves the order."""

    name = "quick"

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        return [Ranked(place, 1.0) for place in range(len(candidates))], []


class Silent(Quick):
    """One that never answers."""

    name = "silent"

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        await asyncio.Event().wait()
        raise AssertionError


async def put(toolbox: Toolbox, way: str, timeout_s: float = 5) -> Order:
    settings = Settings.model_validate({"sources": {"reranker": way}})
    asking = dataclasses.replace(toolbox, settings=settings)
    return await reordered(asking, "the migration hangs", SHOWN, timeout_s, may_chat=True)


async def asked(toolbox: Toolbox, chat: ScriptedChatModel) -> tuple[list[int], tuple[str, ...]]:
    order = await put(dataclasses.replace(toolbox, chat=chat), "chat")
    return [each.place for each in order.ranked], order.notices


async def test_a_chat_model_puts_memories_in_order_by_its_scores(toolbox: Toolbox) -> None:
    chat = ScriptedChatModel([scores(("Pin the lock file", 0.1), ("Retry the migration (2)", 0.8))])
    assert await asked(toolbox, chat) == ([2, 0], ())
    (request,) = chat.requests
    assert "tool_name: Retry the migration (2)\nAnother note of that title." in request.user
    assert "the migration hangs" in request.user
    assert "the migration hangs" not in request.system


@pytest.mark.parametrize("bad", [ModelUnavailable("it is down"), scores(("made up", 1.0)), "no JSON"])
async def test_a_chat_model_without_a_usable_answer_changes_nothing_and_is_said(toolbox: Toolbox, bad: Any) -> None:
    places, notices = await asked(toolbox, ScriptedChatModel([bad]))
    assert places == []
    assert any("the reranker scripted:test failed" in notice for notice in notices)


async def test_a_reranker_that_takes_too_long_is_given_up_and_said(toolbox: Toolbox) -> None:
    order = await put(dataclasses.replace(toolbox, reranker=Silent()), "endpoint", 0.01)
    assert (list(order.ranked), order.reranker) == ([], None)
    assert order.notices == (
        "in the order of the index alone, because the reranker silent failed: it gave no answer within 0.01 s",
    )


async def test_who_is_asked_goes_by_the_setting(toolbox: Toolbox) -> None:
    chat = ScriptedChatModel([scores(("Pin the lock file", 0.5))])
    both = dataclasses.replace(toolbox, chat=chat, reranker=Quick())
    for given, way, name, said in (
        (both, "none", None, ()),
        (both, "auto", "quick", ()),
        (both, "chat", "scripted:test", ()),
        (toolbox, "auto", None, ()),
        (toolbox, "chat", None, ("sources.reranker is chat, and no chat model is set",)),
        (toolbox, "endpoint", None, ("sources.reranker is endpoint, and sources.rerank_url is not set",)),
    ):
        order = await put(given, way)
        assert (order.reranker, order.notices) == (name, said)
