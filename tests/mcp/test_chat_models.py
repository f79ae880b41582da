"""The configured chat models at work in the bank: which one judges, what it costs, and what happens without them."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clock import SetClock
from forked import CLI, STARTS, run
from patience import HANG_S, STATIC
from scripted_server import ScriptedServer, Turn, completion, error

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.settings import ChatSettings, JudgeSettings, Settings
from swarm_memory.server.chat.metering import ChatMeter
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import opened_toolbox
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.models import ChatRequest, ChatUsage
from swarm_memory.tools.toolbox import Toolbox

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"])]

REQUEST = ChatRequest(
    purpose="distill", system="s", user="u", answer_schema={"type": "object"}, max_tokens=50, timeout_s=HANG_S
)
TOKENS = 18
"""The tokens that each scripted answer counts."""

ITEM = {
    "title": "Migrate the test database before the tests run",
    "description": "Of use when tests stop because a table is missing.",
    "steps": ["Read the first error", "Run the migration of the test database", "Run the tests again"],
    "evidence": ["s3", "s4"],
}


def said(**answer: Any) -> Turn:
    return completion(json.dumps(answer))


def script() -> list[Turn]:
    """Return the model's answers when one task is learned from."""
    return [said(label="Success", confidence=0.9, reasons=["s6: the tests pass"]), said(items=[ITEM])]


def provider(server: ScriptedServer, model: str = "m") -> dict[str, str]:
    return {"provider": "openai", "model": model, "base_url": server.url}


@asynccontextmanager
async def bank(
    place: Location, settings: Settings, providers: list[dict[str, str]], judge: str | None = None, **limits: Any
) -> AsyncGenerator[Toolbox]:
    """Open the place's bank with chat models."""
    chat = ChatSettings.model_validate({"providers": providers, **limits})
    changed = settings.model_copy(update={"chat": chat, "judge": JudgeSettings(model=judge)})
    async with opened_toolbox(place, changed) as opened:
        yield opened


async def ask(toolbox: Toolbox, purpose: str) -> str:
    assert toolbox.chat is not None
    return (await toolbox.chat.complete(REQUEST.model_copy(update={"purpose": purpose}))).model


async def test_the_judge_of_the_settings_is_asked_first_to_judge_and_only_to_judge(
    place: Location, settings: Settings
) -> None:
    async with ScriptedServer([completion("{}")] * 2) as one, ScriptedServer([completion("{}")] * 2) as two:
        chosen = [provider(one, "m-1"), provider(two, "m-2")]
        async with bank(place, settings, chosen, judge="m-2") as toolbox:
            assert [await ask(toolbox, "judge"), await ask(toolbox, "distill")] == ["openai:m-2", "openai:m-1"]
            status = await memory_status(toolbox)
    assert status.judge == "openai:m-2 → openai:m-1"
    assert not [notice for notice in status.notices if "judge.model" in notice]


@pytest.mark.parametrize("providers", [[], [{"provider": "claude_cli"}]])
async def test_a_judge_that_cannot_be_chosen_is_named(
    place: Location, settings: Settings, providers: list[dict[str, str]]
) -> None:
    async with bank(place, settings, providers, judge="claude-sonnet-4.5") as toolbox:
        notices = (await memory_status(toolbox)).notices
    assert any("claude-sonnet-4.5" in notice and "not one of chat.providers" in notice for notice in notices)


async def test_what_one_process_spent_counts_for_the_next_and_only_today(place: Location, settings: Settings) -> None:
    async with ScriptedServer([completion("{}")] * 2) as server:
        async with bank(place, settings, [provider(server)]) as first:
            await ask(first, "judge")
            assert await ChatMeter(first.store, first.scope, first.clock).used_today() == TOKENS
            yesterday = ChatMeter(first.store, first.scope, SetClock(datetime.now(UTC) - timedelta(days=1)))
            usage = ChatUsage(input_tokens=1000, output_tokens=0, cost_usd=0.5)
            yesterday.record("judge", "openai:m", "answered", usage, 1.0)
        async with bank(place, settings, [provider(server)], daily_token_budget=TOKENS + 49) as second:
            chat = (await memory_status(second)).chat
            assert chat is not None
            assert f"today {TOKENS} tokens of 67 in 1 call; by day: " in chat
            with pytest.raises(ModelUnavailable, match="18 of 67 are used"):
                await ask(second, "judge")
    assert len(server.requests) == 1


async def test_the_status_shows_what_models_cost(place: Location, settings: Settings) -> None:
    async with bank(place, settings, [{"provider": "claude_cli", "model": "haiku"}], daily_token_budget=5000) as opened:
        meter = ChatMeter(opened.store, opened.scope, opened.clock)
        usage = ChatUsage(input_tokens=1000, output_tokens=200, cost_usd=0.012)
        meter.record("judge", "claude_cli:haiku", "answered", usage, 1.0)
        meter.record("judge", "claude_cli:haiku", "invalid", ChatUsage(), 1.0)
        status = await memory_status(opened)
    assert status.judge == "claude_cli:haiku"
    assert "model: 1 of 2 answers in the last week could not be used; rules stood in" in status.notices
    assert status.chat == (
        "claude_cli:haiku; today 1,200 tokens of 5,000 in 2 calls, 0.0120 USD; "
        f"by day: {opened.clock.now():%Y-%m-%d} 1,200 tokens, 0.0120 USD"
    )


class Shell:
    """Runs `swarm-memory` as a process in a project with chat models."""

    def __init__(self, place: Location, home: Path, task: Mapping[str, Any]) -> None:
        (place.root / "run.json").write_text(json.dumps({"id": "fix-1", "task": task["task"], "steps": task["steps"]}))
        self._root = place.root
        self._home = home

    async def __call__(self, *arguments: str, **settings: str) -> tuple[int, str, str]:
        given = {f"SWARM_MEMORY_CHAT__{name.upper()}": value for name, value in settings.items()}
        environment = {**STATIC, "PATH": os.environ["PATH"], "HOME": str(self._home), **given}
        done = await asyncio.to_thread(run, [*CLI, *arguments], cwd=self._root, env=environment, text=True)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def shell(place: Location, home: Path, fixed: dict[str, Any]) -> Shell:
    return Shell(place, home, fixed)


async def test_learning_from_the_command_line_asks_the_model_over_http(shell: Shell) -> None:
    screened = said(items=[{"number": 1, "suspect": False, "reason": ""}])
    async with ScriptedServer([*script(), screened]) as server:
        providers = json.dumps([provider(server)])
        code, out, err = await shell("learn", "run.json", "--json", providers=providers)
        items = json.loads((await shell("memories", "list", "--json"))[1])
        _, shown, _ = await shell("status", "--json", providers=providers)
        _, days, _ = await shell("metrics", providers=providers)
    assert days.partition("chat days")[2].split()[-4:] == ["3", f"{3 * TOKENS}", "3", "0"]
    assert code == 0, err
    learned = json.loads(out)
    (item,) = items
    assert (learned["judge"], learned["distiller"]) == ("openai:m", "model")
    assert (item["id"], item["title"]) == (*learned["stored"], ITEM["title"])
    assert item["provenance"]["model"] == "openai:m"
    assert item["provenance"]["screened_by"] == "rules and classifier, openai:m"
    assert [request.body["model"] for request in server.requests] == ["m", "m", "m"]
    chat = json.loads(shown)["chat"]
    assert chat.startswith(f"openai:m; today {3 * TOKENS:,} tokens of 500,000 in 3 calls")


@pytest.mark.parametrize(("options", "budget"), [((), "10"), (("--dry-run",), "10"), ((), "500000")])
async def test_a_spent_budget_or_a_model_that_is_down_leaves_it_to_evidence_and_the_answer_says_so(
    shell: Shell, options: tuple[str, ...], budget: str
) -> None:
    async with ScriptedServer([error(401, "no such key")] * 2) as server:
        given = {"providers": json.dumps([provider(server)]), "daily_token_budget": budget}
        code, out, err = await shell("learn", "run.json", *options, "--json", **given)
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["judge"], answer["distiller"]) == ("evidence", "extractive")
    assert "judged by the evidence alone" in answer["reasons"][0]
    assert bool(server.requests) == (budget != "10")
    assert ("token budget" in answer["reasons"][0]) == (budget == "10")
    assert "distilled without a model" in answer["reason"]


async def test_the_doctor_names_what_a_chat_model_lacks_and_sends_nothing(shell: Shell) -> None:
    async with ScriptedServer(script()) as server:
        chosen = [
            provider(server),
            {"provider": "openai", "model": "m-2"},
            {"provider": "claude_cli", "command": "no-such-program"},
        ]
        code, out, _ = await shell("doctor", "--json", providers=json.dumps(chosen))
        found = [finding for finding in json.loads(out) if finding["what"] == "chat model"]
    assert code == 0
    assert [(finding["state"], finding["found"]) for finding in found] == [
        ("ok", "openai:m"),
        ("warn", "openai:m-2: OPENAI_API_KEY is not set"),
        ("warn", "claude_cli:default: no-such-program was not found"),
    ]
    assert server.requests == []


async def test_a_hook_command_of_an_agent_that_we_started_ourselves_does_not_even_read_its_event(
    place: Location, settings: Settings, home: Path
) -> None:
    async with bank(place, settings, []):
        pass
    logged: list[bool] = []
    for child, verb in (("1", "prompt"), ("1", "session-end"), ("", "prompt")):
        command = [*STARTS, "swarm_memory.server.hooks", verb]
        environment = {**STATIC, "PATH": os.environ["PATH"], "HOME": str(home), "SWARM_MEMORY_CHILD": child}
        done = await asyncio.to_thread(run, command, cwd=place.root, env=environment, input=b"no event")
        assert (done.returncode, done.stdout) == (0, b"")
        logged.append((place.folder / "log").exists())
    assert logged == [False, False, True]
