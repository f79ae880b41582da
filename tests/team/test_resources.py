"""What the briefing and prompts show of what a team shares, also while its server is away."""

import asyncio
import json

import pytest
from mcp.client import Client
from mcp.types import TextResourceContents
from served import place, settings

from swarm_memory.schema.settings import Settings, TeamSettings
from swarm_memory.server.bank import Bank
from swarm_memory.server.hooks.alone import answer_alone
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.wiring import open_toolbox, opened_toolbox
from swarm_memory.tools.memories.remember import Attribution, remember
from swarm_memory.tools.team.cache import sync
from tests.team.team_banks import LOGIN, LOGIN_AGAIN, PROJECT, URL, NewHome

__all__ = ["place", "settings"]

OTHER = ("Close the pool before the fork", "1. Close the pool of connections.\n2. Fork the workers.")
BORNE_OUT = "the team's; worked 1 of 1 time for 1 person"


async def text_of(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def test_resources_tell_what_the_team_shares_as_the_teams_with_its_evidence_and_once(
    home: NewHome, place: Location, settings: Settings
) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    own = [await ann.learn(*each) for each in (LOGIN, OTHER)]
    await ann.tried(own[1], "t1", worked=True)
    login, pool = [str((await rob.decide(await ann.propose(each))).memory_id) for each in own]
    member = settings.model_copy(update={"team": TeamSettings(url=URL, project=PROJECT)})
    async with opened_toolbox(place, member) as toolbox:
        await sync(toolbox, ann.server, URL, PROJECT)
        await remember(toolbox, LOGIN_AGAIN[0], attribution=Attribution("prompt"))
        await sync(toolbox, ann.server, URL, PROJECT)
    async with Client(build_server(Bank(lambda: open_toolbox(place, member), root=place.root))) as client:
        notes = await text_of(client, "memory://strategies")
    assert f"{OTHER[0]} ({BORNE_OUT}) [{pool}]" in notes
    assert f"The user said: {LOGIN_AGAIN[0]}" in notes
    assert login not in notes, "what the user said says it too"


NOWHERE = "https://192.0.2.1"
"""Of an address that no machine has (RFC 5737): a request would wait for its time limit."""


async def test_a_prompt_is_shown_what_the_team_shares_from_the_copy_and_asks_no_network(
    home: NewHome, place: Location, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    await rob.decide(await ann.propose(await ann.learn(*LOGIN)))
    member = settings.model_copy(update={"team": TeamSettings(url=URL, project=PROJECT)})
    async with opened_toolbox(place, member) as toolbox:
        await sync(toolbox, ann.server, URL, PROJECT)
    asked: list[object] = []

    def noted(*named: object, **_: object) -> None:
        asked.append(named)

    monkeypatch.setattr("socket.socket.connect", noted)
    monkeypatch.setattr("socket.getaddrinfo", noted)
    monkeypatch.setenv("SWARM_MEMORY_TEAM__URL", NOWHERE)
    monkeypatch.setenv("SWARM_MEMORY_TEAM_TOKEN", "t" * 20)
    monkeypatch.setenv("SWARM_MEMORY_TEAM__PROJECT", PROJECT)
    monkeypatch.chdir(place.root)
    called = "claude UserPromptSubmit 0"
    prompt = "The login fails without the CSRF token of the form: mend it"
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": prompt}
    answer = await asyncio.to_thread(answer_alone, str(place.root), json.dumps(event).encode(), called)
    context = json.loads(answer or b"{}")["hookSpecificOutput"]["additionalContext"]
    assert f"{LOGIN[0]} (the team's)" in context
    assert asked == []
