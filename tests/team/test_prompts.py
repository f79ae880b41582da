"""What prompts show of what a team shares, even while its server is away."""

import asyncio
import json

import pytest
from served import place, settings

from swarm_memory.schema.settings import Settings, TeamSettings
from swarm_memory.server.hooks.alone import answer_alone
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import opened_toolbox
from swarm_memory.tools.team.cache import sync
from tests.team.team_banks import LOGIN, PROJECT, URL, NewHome

__all__ = ["place", "settings"]

NOWHERE = "https://192.0.2.1"
"""An address that no machine has (RFC 5737): a request would wait for its time limit."""


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
