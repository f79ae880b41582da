"""People over HTTP: let in by their tokens, each with a role, shown what it allows, and named on what they write."""

import asyncio
import json
from typing import Any

import pytest
from made_work import lesson
from served import place, settings
from team_server import OWN_TOKEN, serving_team

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.team.person import ROLES, Role, rank
from swarm_memory.server.access.roles import PROMPTS, TOOLS, role_of_call
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.viewer.viewer import PAGES as VIEWED
from swarm_memory.tools.memories.transfer import export_memories
from swarm_memory.tools.team.people import change_role, renew_token
from tests.viewer.browsed import browsing

__all__ = ["place", "settings"]


async def test_whom_an_issuer_signed_in_before_comes_in_by_a_token_of_ours(place: Location, settings: Settings) -> None:
    async with serving_team(place, settings) as team:
        token = await team.add("ada", "read")
        named = "UPDATE people SET token_hash = NULL, issuer = 'https://login.example.org', subject = 'ada-1'"
        await team.toolbox.store.write(lambda connection: connection.execute(named))
        assert (await team.post(token, {})).status_code == 401
        shown = await _page_of_people(place, settings)
        assert ("no token" in shown, "swarm-memory team people NAME --new-token" in shown) == (True, True)
        renewed = (await renew_token(team.toolbox, "ada")).token
        assert not (await team.call(renewed, "memory_status"))[0]
        assert "no token" not in await _page_of_people(place, settings)


async def _page_of_people(place: Location, settings: Settings) -> str:
    async with browsing(place, settings) as browser:
        return await browser.text("/people")


async def test_a_role_counts_from_the_next_request_on(place: Location, settings: Settings) -> None:
    async with serving_team(place, settings) as team:
        token = await team.add("ada", "read")
        failed, answer = await team.call(token, "remember", text="We use pnpm here")
        assert (failed, "needs the role review; yours is read" in answer) == (True, True)
        await change_role(team.toolbox, "ada", "review")
        assert not (await team.call(token, "remember", text="We use pnpm here"))[0]
        await change_role(team.toolbox, "ada", "write")
        assert (await team.call(token, "remember", text="We use npm here"))[0]


def test_every_tool_prompt_and_page_has_its_least_role() -> None:
    async def never() -> Any:
        raise AssertionError

    server = build_server(ServedBank(never))
    tools = {tool.name: tool for tool in asyncio.run(server.list_tools())}
    assert set(TOOLS) == set(tools)
    for name, needed in TOOLS.items():
        if not isinstance(needed, str):
            assert set(needed) == set(tools[name].input_schema["properties"]["action"]["enum"])
    assert asyncio.run(server.list_resources()) == []
    assert set(PROMPTS) == {each.name for each in asyncio.run(server.list_prompts())}
    roles = {f"{route.method} {route.path}": route.role for _, _, routes in VIEWED for route in routes}
    assert set(roles.values()) == {"review", "admin"}
    assert {page for page, needed in roles.items() if needed == "admin"} == {
        "GET /people",
        "GET /settings",
        "GET /memories/{memory_id}/forget",
        "POST /memories/{memory_id}/forget",
        "POST /jobs/{job_id}",
    }


@pytest.mark.parametrize("role", ROLES[:-1])
async def test_the_lists_show_what_a_role_may_use_and_nothing_else(
    place: Location, settings: Settings, role: Role
) -> None:
    async with serving_team(place, settings) as team:
        token = await team.add("ada", role)
        listed = (await team.ask(token, "tools/list"))["result"]["tools"]
        known = {each["name"]: each for each in (await team.ask(OWN_TOKEN, "tools/list"))["result"]["tools"]}
        assert set(known) == set(TOOLS)
        shown = {each["name"]: each["inputSchema"]["properties"] for each in listed}
        for name, tool in known.items():
            actions = tool["inputSchema"]["properties"].get("action", {}).get("enum", [None])
            may = [each for each in actions if rank(role_of_call(name, {"action": each})) <= rank(role)]
            assert (name in shown) == bool(may)
            if may and may != [None]:
                assert shown[name]["action"]["enum"] == may
            assert "transcript_path" not in shown.get(name, {})
        prompts = {each["name"] for each in (await team.ask(token, "prompts/list"))["result"]["prompts"]}
        assert prompts == {name for name, needed in PROMPTS.items() if rank(needed) <= rank(role)}


async def test_what_a_person_brings_names_them_and_what_the_server_brings_nobody(
    place: Location, settings: Settings
) -> None:
    async with serving_team(place, settings) as team:
        token = await team.add("ada", "write")
        assert not (await team.call(token, "distill_memories", **lesson("t1", "the clock")))[0]
        assert not (await team.call(OWN_TOKEN, "distill_memories", **lesson("t2", "the file")))[0]
        found = await team.toolbox.store.surest_memories(team.toolbox.scope, 9)
        authors = await team.toolbox.store.people.authors([team.toolbox.scope], [each.id for each in found])
        assert {each.title: authors.get(each.id) for each in found} == {"Mend the clock": "ada", "Mend the file": None}
        exported = [json.loads(line) async for line in export_memories(team.toolbox)]
        persons = {each["title"]: each["provenance"]["person"] for each in exported}
        assert persons == {"Mend the clock": "ada", "Mend the file": None}
        ids = [each.id for each in found]
        assert '"person":"ada"' in (await team.call(token, "manage_memories", action="get", ids=ids))[1]
