"""People try what they may not do: other people's tokens and sessions, tools and pages above their role."""

import asyncio
import hashlib
import logging
import random
from dataclasses import replace
from typing import Any

import pytest
from postgres_server import BOTH_ENGINES, database_url, engine, rows_with
from served import place, settings
from starlette.types import Message, Receive, Scope, Send
from team_server import OWN_TOKEN, serving_team

from swarm_memory.schema.base import Scope as BankScope
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.team.person import ROLES, Person, Role, rank
from swarm_memory.server.access.roles import TOOLS, Caller, role_of_call
from swarm_memory.server.http import guard
from swarm_memory.server.http.guard import Guard
from swarm_memory.server.http.identity import Authenticator
from swarm_memory.server.location import Location
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.tools.team.people import add_person, change_role, hash_of, revoke
from tests.abuse.banks import look
from tests.abuse.tool_arguments import valid
from tests.attacks.attacked_bank import files_with
from tests.viewer.browsed import ORIGIN, browsing

__all__ = ["database_url", "engine", "place", "settings"]

pytestmark = [pytest.mark.attack, pytest.mark.allow_hosts(["127.0.0.1"])]

ABOVE = [role for role in ROLES if role != "admin"]
EVERYTHING = ""


def rows(place: Location, url: str | None) -> dict[str, int]:
    """Return how many rows each table of the bank has; on PostgreSQL, without the empty tables."""
    return look(place.root)["rows"] if url is None else rows_with(url, EVERYTHING)


def places_with(place: Location, url: str | None, *marks: str) -> int:
    """Count the files of the project, and the tables of its database, that contain any of the texts."""
    return files_with(place.root, *marks) + (0 if url is None else len(rows_with(url, *marks)))


@BOTH_ENGINES
@pytest.mark.usefixtures("database_url")
async def test_no_token_but_a_persons_own_lets_anybody_in(place: Location, settings: Settings) -> None:
    async with serving_team(place, settings) as team:
        token = await team.add("ada", "admin")
        other = replace(team.toolbox, scope=BankScope(tenant_id="other", project="shop"))
        foreign = (await add_person(other, "eve", "admin")).token
        revoked = await team.add("bob", "admin")
        await revoke(team.toolbox, "bob")
        wrong = {
            "of another tenant": foreign,
            "revoked": revoked,
            "what is kept of it": hash_of(token),
            "with what is kept of it behind the prefix": f"swm_{hash_of(token)}",
            "cut": token[:-1],
            "longer": f"{token}A",
            "in other letters": token.swapcase(),
            "the prefix alone": "swm_",
            "a pattern": "swm_%",
            "a quote": "swm_' OR '1'='1",
            "huge": "swm_" + "A" * 20_000,
        }
        statuses = {what: (await team.post(each, {})).status_code for what, each in wrong.items()}
        assert {what for what, status in statuses.items() if status != 401} == set()
        assert not (await team.call(token, "memory_status"))[0]


@BOTH_ENGINES
@pytest.mark.parametrize("role", ABOVE)
async def test_no_tool_or_prompt_above_ones_role_is_reached(
    place: Location, settings: Settings, role: Role, database_url: str | None
) -> None:
    chance = random.Random(20261123)
    async with serving_team(place, settings) as team:
        token = await team.add("ada", role)
        known = (await team.ask(OWN_TOKEN, "tools/list"))["result"]["tools"]
        before = rows(place, database_url)
        tried = 0
        for tool in known:
            schema = tool["inputSchema"]
            actions = schema["properties"].get("action", {}).get("enum", [None])
            for action in [*actions, *(() if actions == [None] else ("FORGET", ["forget"], "list\0"))]:
                arguments = valid(schema, chance) | ({} if action is None else {"action": action})
                arguments.pop("transcript_path", None)
                arguments.pop("repository", None)
                needed = role_of_call(tool["name"], {"action": action})
                if rank(needed) <= rank(role):
                    continue
                failed, refusal = await team.call(token, tool["name"], **arguments)
                assert failed, tool["name"]
                assert f"needs the role {needed}; yours is {role}" in refusal
                tried += 1
        for tool in ("learn_from_trajectory", "judge_trajectory", "distill_memories"):
            assert (await team.call(token, tool, transcript_path="/etc/passwd"))[0]
        assert (await team.call(token, "search_sources", query="x", repository="a/b"))[0]
        assert ("error" in await team.ask(token, "prompts/get", name="review")) == (rank(role) < rank("review"))
        assert rows(place, database_url) == before
    assert tried


class Streaming:
    """An application whose response continues when a test says so."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await self.go_on.wait()
        await send({"type": "http.response.body", "body": b"secret", "more_body": True})
        await send({"type": "http.response.body", "body": b"more", "more_body": False})


def request(method: str, address: str = "10.0.0.1") -> dict[str, Any]:
    return {"type": "http", "method": method, "path": "/mcp", "headers": [], "client": (address, 1)}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("later", [None, "read", "admin"])
async def test_an_answer_that_lasts_ends_when_its_reader_is_revoked_or_may_do_less(
    method: str, later: Role | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "RECHECK_S", 0.0)
    now: list[Role | None] = ["review"]

    class Changing(Authenticator):
        async def __call__(self, scope: Scope) -> Caller | None:
            return None if now[0] is None else Caller(person("p", now[0]))

    async def never() -> Any:
        raise AssertionError

    sent, begun = list[Message](), asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        if "body" in message:
            begun.set()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    app = Streaming()
    answering = asyncio.ensure_future(Guard(app, Changing("", ServedBank(never)))(request(method), receive, send))
    await begun.wait()
    now[0] = later
    app.go_on.set()
    await answering
    body = b"".join(message.get("body", b"") for message in sent)
    assert body == (b"firstsecretmore" if later == "admin" else b"first")
    assert sent[-1]["more_body"] is False


def person(name: str, role: Role) -> Person:
    return Person.model_validate(
        {"id": f"pn_{name}", "tenant_id": "default", "name": name, "role": role, "created_at": "2026-05-01T00:00:00Z"}
    )


@BOTH_ENGINES
async def test_no_token_is_in_a_log_an_answer_the_trail_or_the_bank(
    place: Location, settings: Settings, database_url: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving_team(place, settings) as team:
        ada, eve = await team.add("ada", "read"), await team.add("eve", "review")
        tokens = [ada, eve, OWN_TOKEN, f"{ada}x"]
        answers = [(await team.post(each, {"jsonrpc": "2.0"})).text for each in tokens]
        answers += [(await team.call(each, "remember", text="We use pnpm"))[1] for each in (ada, eve)]
        await revoke(team.toolbox, "eve")
        answers += [(await team.post(eve, {})).text]
        answers += [repr(each) for each in await team.toolbox.store.people.audit(team.toolbox.scope.tenant_id, 50)]
        answers += [repr(each) for each in await team.toolbox.store.people.list("default")]
        seen = "\n".join([caplog.text, *answers])
        assert [each for each in tokens if each in seen] == []
        assert places_with(place, database_url, *tokens) == 0
        assert places_with(place, database_url, hashlib.sha256(ada.encode()).hexdigest()) > 0
    assert places_with(place, database_url, *tokens) == 0


@BOTH_ENGINES
@pytest.mark.usefixtures("database_url")
async def test_the_pages_let_in_by_role_and_only_as_long_as_it_lasts(place: Location, settings: Settings) -> None:
    form = {"content-type": "application/x-www-form-urlencoded", "origin": ORIGIN}
    async with browsing(place, settings, let_in=False) as browser:
        toolbox = await browser.bank.toolbox()
        tokens = {role: str((await add_person(toolbox, role, role)).token) for role in ROLES}
        for role in ("read", "write"):
            refused = await browser.client.post("/ui/enter", content=f"token={tokens[role]}", headers=form)
            assert (refused.status_code, "needs the role review" in refused.text) == (403, True)
            assert (await browser.client.get("/ui")).status_code == 401
        entered = await browser.client.post("/ui/enter", content=f"token={tokens['review']}", headers=form)
        assert entered.status_code == 200
        (cookie,) = [each.headers["set-cookie"] for each in (*entered.history, entered) if "set-cookie" in each.headers]
        assert {"httponly", "samesite=strict", "path=/ui"} <= {part.strip().lower() for part in cookie.split(";")}
        desk = await browser.client.get("/ui/desk")
        assert (desk.status_code, "/ui/settings" in desk.text) == (200, False)
        forget = f"/ui/memories/rm_{'0' * 26}/forget"
        for page in ("/ui/settings", "/ui/people", forget):
            answer = await browser.client.get(page)
            assert (answer.status_code, "needs the role admin" in answer.text) == (403, True)
        assert (await browser.client.post(forget, content="", headers=form)).status_code == 403
        await change_role(toolbox, "review", "read")
        assert (await browser.client.get("/ui/desk")).status_code == 403
        await revoke(toolbox, "review")
        assert (await browser.client.get("/ui/desk")).status_code == 401


def test_an_action_that_is_not_known_needs_the_highest_role() -> None:
    by_action = [name for name, role in TOOLS.items() if not isinstance(role, str)]
    assert {role_of_call(name, {"action": "unheard of"}) for name in by_action} == {"admin"}
