"""The team's routes and the client that calls them: the real server behind its guard, without a socket."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx
import pytest
from served import place, settings
from team_server import URL, serving_team

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.errors import ConfigError, InputError, NotAllowed, NotFoundError, TeamUnavailable
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import HttpSettings, Settings, TeamSettings
from swarm_memory.schema.team.person import ROLES
from swarm_memory.schema.team.sharing import Evidence, ItemEvidence, Proposed, Ruling
from swarm_memory.server.http.team import ROUTES, team_routes
from swarm_memory.server.location import Location
from swarm_memory.server.team.client import MAX_ANSWER_BYTES, TeamClient
from swarm_memory.tools.team.people import revoke
from tests.team.team_banks import LOGIN, PROJECT

__all__ = ["place", "settings"]

VARIABLE = "SWARM_MEMORY_TEAM_TOKEN"
UNKNOWN = ItemEvidence(memory_id=new_id(MEMORY), evidence=Evidence())
Connect = Callable[..., TeamClient]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Return a function that makes a client whose requests a transport answers."""

    def made(answers: httpx.AsyncBaseTransport, token: str = "t" * 20) -> TeamClient:
        monkeypatch.setenv(VARIABLE, token)
        return TeamClient(TeamSettings(url=URL), answers)

    return made


def proposed(**fields: Any) -> Proposed:
    draft = MemoryDraft(title=LOGIN[0], content=LOGIN[1])
    given: dict[str, Any] = {"draft": draft, "origin_id": new_id(MEMORY), "project": PROJECT}
    return Proposed(**given | fields)


CALLS: dict[str, Callable[[TeamClient], Awaitable[object]]] = {
    "GET /team/v1/me": lambda asked: asked.me(),
    "GET /team/v1/changes": lambda asked: asked.changes(PROJECT, "", 0),
    "GET /team/v1/proposals": lambda asked: asked.proposals(mine=True),
    "POST /team/v1/proposals": lambda asked: asked.propose("b", [proposed()]),
    "POST /team/v1/evidence": lambda asked: asked.send_evidence("b", [UNKNOWN]),
    "POST /team/v1/proposals/{id}": lambda asked: asked.decide("pr_1", Ruling(act="accept")),
}


async def test_each_route_has_a_least_role_and_refuses_less(
    place: Location, settings: Settings, connect: Connect
) -> None:
    async with serving_team(place, settings) as team:
        routes = {f"{method} {each.path}" for each in team_routes(team.identity.bank) for method in each.methods or ()}
        assert {name for name in routes if not name.startswith("HEAD")} == set(ROUTES) == set(CALLS)
        for role in ROLES:
            asked = connect(httpx.ASGITransport(team.guard), await team.add(role, role))
            for name, call in CALLS.items():
                if ROLES.index(ROUTES[name][0]) > ROLES.index(role):
                    with pytest.raises(NotAllowed, match=f"needs the role {ROUTES[name][0]}"):
                        await call(asked)
                elif name.endswith("{id}"):
                    with pytest.raises(NotFoundError):
                        await call(asked)
                else:
                    await call(asked)
        ann = connect(httpx.ASGITransport(team.guard), await team.add("ann", "write"))
        with pytest.raises(NotAllowed, match="seeing what others propose"):
            await ann.proposals()
        await revoke(team.toolbox, "ann")
        with pytest.raises(ConfigError, match="does not know your token"):
            await ann.me()


def test_without_a_token_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=f"put it in the variable {VARIABLE}"):
        TeamClient(TeamSettings(url=URL))


PLAIN = proposed().model_dump(mode="json")
BODIES: dict[str, Any] = {
    "no JSON": b"{",
    "too large": b"x" * (HttpSettings().max_body_bytes + 1),
    "more than fifty": {"proposed": [{}] * 51},
    "another's field": {"proposed": [PLAIN | {"person_id": "pe_1"}]},
    "a title too long": {"proposed": [PLAIN | {"draft": {"title": "t" * 201, "content": "xyz"}}]},
    "no such scope": {"proposed": [PLAIN | {"project": "a\nb"}]},
    "no id": {"proposed": [PLAIN | {"origin_id": "../../x"}]},
    "counts below none": {"proposed": [PLAIN | {"evidence": {"worked": -1}}]},
}


async def test_what_is_no_proposal_is_refused_and_leaves_nothing(place: Location, settings: Settings) -> None:
    async with serving_team(place, settings) as team, team.http(await team.add("ann", "write")) as called:
        for what, body in BODIES.items():
            content = body if isinstance(body, bytes) else json.dumps({"bank": "b", **body}).encode()
            answer = await called.post("/team/v1/proposals", content=content)
            assert answer.status_code == (413 if what == "too large" else 400), what
            assert len(answer.text) < 320, what
        assert (await called.get(f"/team/v1/changes?project=shop&after={10**20:040}")).status_code == 400
        assert await team.toolbox.store.team.count_waiting("default") == 0


async def test_no_token_goes_where_a_server_leads(connect: Connect) -> None:
    asked: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(307, headers={"location": "https://evil.example/team/v1/me"})

    with pytest.raises(TeamUnavailable, match="redirects"):
        await connect(httpx.MockTransport(redirect)).me()
    assert asked == [f"{URL}/team/v1/me"]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"[" * 100_000, "answered 200"),
        (200, b"x" * (MAX_ANSWER_BYTES + 1), "more than"),
        (200, b'{"role": "root"}', "cannot be used"),
        (500, json.dumps({"error": "\x1b[2J" + "a" * 5000}).encode(), "aaaa"),
        (404, b"<html>", "answered 404"),
    ],
    ids=["nested", "huge", "unknown role", "loud", "no JSON"],
)
async def test_what_a_server_answers_is_bounded_and_checked(
    status: int, body: bytes, said: str, connect: Connect
) -> None:
    answers = httpx.MockTransport(lambda request: httpx.Response(status, content=body))
    with pytest.raises((TeamUnavailable, InputError), match=said) as raised:
        await connect(answers).me()
    assert len(str(raised.value)) < 400
    assert "\x1b" not in str(raised.value)


class Drip(httpx.AsyncByteStream):
    """A body that never ends."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await anyio.sleep(0.02)


async def test_a_server_that_drips_is_given_up_in_time(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.team.client.TIMEOUT_S", 0.1)
    dripping = httpx.MockTransport(lambda request: httpx.Response(200, stream=Drip()))
    with pytest.raises(TeamUnavailable, match="no complete answer within"):
        await connect(dripping).me()


@pytest.mark.parametrize(
    "url", ["http://acme.example", "ftp://x", "https://user:pw@x.example", "https://x.example?a=b"]
)
def test_a_token_goes_only_over_https_or_to_this_machine(url: str) -> None:
    with pytest.raises(ValueError, match=r"must (begin|not contain)"):
        TeamSettings(url=url)
    assert TeamSettings(url="http://127.0.0.1:8765/").url == URL
