"""Memories reranked by a chat model or a cross-encoder, and how each of the two fails."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from scripted_chat import ScriptedChatModel

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.tools.ports.models import Ranked, RerankCandidate
from swarm_memory.tools.retrieve.rerank import MEMORIES, Order, rerank
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

SHOWN = [
    ("Pin the lock file", "", "Run the resolver with the lock file."),
    ("Retry the migration", "", "The first run may time out."),
    ("Retry the migration", "", "Another note of that title."),
]


def scores(*pairs: tuple[str, float]) -> dict[str, Any]:
    return {"scores": [{"memory": name, "relevance_score": score} for name, score in pairs]}


class Silent:
    """A reranker that never answers."""

    name = "silent"

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        await asyncio.Event().wait()
        raise AssertionError


async def put(toolbox: Toolbox, way: str, timeout_s: float = 5) -> Order:
    setting = ("retrieve.rerank", way)
    return await rerank(toolbox, "the migration hangs", SHOWN, MEMORIES, setting, timeout_s)


async def asked(toolbox: Toolbox, chat: ScriptedChatModel) -> tuple[list[int], tuple[str, ...]]:
    order = await put(dataclasses.replace(toolbox, chat=chat), "chat")
    return [each.place for each in order.ranked], order.notices


async def test_a_chat_model_puts_memories_in_order_by_its_scores(toolbox: Toolbox) -> None:
    chat = ScriptedChatModel([scores(("Pin the lock file", 0.1), ("Retry the migration (2)", 0.8))])
    assert await asked(toolbox, chat) == ([2, 0], ())
    (request,) = chat.requests
    assert "memory: Retry the migration (2)\nAnother note of that title." in request.user
    assert "the migration hangs" in request.user
    assert "the migration hangs" not in request.system


async def test_a_reranker_that_takes_too_long_is_given_up_and_said(toolbox: Toolbox) -> None:
    order = await put(dataclasses.replace(toolbox, reranker=Silent()), "endpoint", 0.01)
    assert (list(order.ranked), order.reranker) == ([], None)
    assert order.notices == (
        "ordered by the index alone, because the reranker silent failed: it did not answer within 0.01 s",
    )


async def test_a_retrieval_comes_in_the_rerankers_order_and_in_its_own_where_that_fails(
    toolbox: Toolbox, add: Callable[..., Awaitable[str]]
) -> None:
    titles = [f"Retry the migration of the {name}" for name in ("shop", "bank", "blog")]
    for title in titles:
        await add(title, "1. Run the migration again after it timed out.")
    query = "the migration timed out, should I retry it"
    settings = Settings(retrieve=RetrieveSettings(rerank="chat", delta=0.0))
    plain = [each.item.title for each in (await retrieve(toolbox, query)).memories]
    assert sorted(plain) == sorted(titles)
    backwards = scores(*((title, 0.1 + 0.2 * at) for at, title in enumerate(plain)))
    chat = ScriptedChatModel([backwards, ModelUnavailable("it is down")])
    asking = dataclasses.replace(toolbox, settings=settings, chat=chat)
    assert [each.item.title for each in (await retrieve(asking, query)).memories] == plain[::-1]
    failed = await retrieve(asking, query)
    assert sorted(each.item.title for each in failed.memories) == sorted(titles)
    assert any("the reranker scripted:test failed" in notice for notice in failed.notices)
    lacking = await retrieve(dataclasses.replace(asking, chat=None), query)
    assert len(lacking.memories) == 3
    assert any("no chat model is set" in notice for notice in lacking.notices)
