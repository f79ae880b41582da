"""People whom an OAuth issuer signs in: its tokens are checked by its keys, which are asked for seldom."""

import time
from collections.abc import Generator
from typing import Any

import httpx2
import jwt
import pytest
from local_issuer import AUDIENCE, Key, LocalIssuer
from mcp.client import Client
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from served import place, settings
from team_server import URL, TeamServer, serving_team, structure

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import HttpSettings, Settings
from swarm_memory.server.http.identity import Issuer, IssuerUnavailable
from swarm_memory.server.location import Location
from swarm_memory.tools.team.people import add_person, change_role, list_people, revoke

__all__ = ["place", "settings"]

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"]), pytest.mark.attack]


@pytest.fixture
def local() -> Generator[LocalIssuer]:
    with LocalIssuer() as issuer:
        yield issuer


def issuer_of(local: LocalIssuer, **others: Any) -> Issuer:
    named = {"oauth_issuer": local.url, "oauth_keys_url": f"{local.url}/keys", "oauth_algorithm": "ES256"}
    return Issuer(HttpSettings.model_validate(named | others), AUDIENCE)


class Kept(TokenStorage):
    """Keeps tokens while a test runs."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        raise AssertionError


async def test_the_sdks_client_finds_the_issuer_by_itself_and_comes_in(
    place: Location, settings: Settings, local: LocalIssuer
) -> None:
    async with serving_team(place, settings, issuer_of(local)) as team:
        await add_person(team.toolbox, "the build", "read", local.url, "agent")
        provider = ClientCredentialsOAuthProvider(AUDIENCE, Kept(), "agent", "secret", issuer=local.url)
        mounts = {URL: httpx2.ASGITransport(team.guard)}
        async with (
            httpx2.AsyncClient(mounts=mounts, auth=provider) as called,
            Client(streamable_http_client(AUDIENCE, http_client=called)) as client,
        ):
            structure(await client.call_tool("memory_status", {}))
            refused = await client.call_tool("remember", {"text": "We use pnpm here"})
        assert refused.is_error
        answer = await team.post(None, {})
        assert answer.status_code == 401
        where = answer.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
        async with team.http(None) as stranger:
            assert (await stranger.get(where)).json() == {
                "resource": AUDIENCE,
                "authorization_servers": [local.url],
                "resource_name": "swarm-memory",
                "bearer_methods_supported": ["header"],
            }


async def test_people_are_found_by_issuer_and_subject_with_the_role_they_were_given(
    place: Location, settings: Settings, local: LocalIssuer
) -> None:
    async with serving_team(place, settings, issuer_of(local)) as team:
        assert (await team.post(local.token(), {})).status_code == 401
        await add_person(team.toolbox, "ada", "review", local.url, "ada-1")
        assert not (await team.call(local.token(), "remember", text="We use pnpm here"))[0]
        assert (await team.post(local.token("ada-2"), {})).status_code == 401
        await change_role(team.toolbox, "ada", "read")
        assert (await team.call(local.token(role="admin"), "remember", text="We use npm here"))[0]
        await revoke(team.toolbox, "ada")
        assert (await team.post(local.token(), {})).status_code == 401


async def test_where_a_setting_names_a_claim_it_gives_the_role_and_nobody_need_be_added(
    place: Location, settings: Settings, local: LocalIssuer
) -> None:
    async with serving_team(place, settings, issuer_of(local, oauth_role_claim="roles")) as team:
        await add_person(team.toolbox, "ada", "admin")
        token = local.token("sub-1", roles=["staff", "review"], preferred_username="ada")
        assert not (await team.call(token, "remember", text="We use pnpm here"))[0]
        assert (await team.call(local.token("sub-1", roles="read"), "remember", text="We use npm here"))[0]
        wrong: tuple[Any, ...] = (None, [], "root", {"admin": True}, 7)
        for roles in wrong:
            assert (await team.post(local.token("sub-1", roles=roles), {})).status_code == 401
        people = {each.name: each.subject for each in await list_people(team.toolbox)}
        (name,) = (each for each, subject in people.items() if subject == "sub-1")
        assert name.startswith("ada (")
        await revoke(team.toolbox, name)
        assert (await team.post(token, {})).status_code == 401


def forged(local: LocalIssuer) -> dict[str, str]:
    """Return tokens that must let nobody in, by what is wrong with them."""
    public = local.published[0]
    claims, now = local.claims(), int(time.time())
    unsigned = jwt.encode(claims, None, "none", headers={"kid": "one"})  # pyright: ignore[reportArgumentType]
    by_public_key = jwt.encode(claims, str(public["x"]) * 2, "HS256", headers={"kid": "one"})
    head, _, tail = local.token().rpartition(".")
    return {
        "unsigned": unsigned,
        "unsigned, with the other's header": f"{head}.",
        "signed with the public key as a secret": by_public_key,
        "another's key under the same id": local.token(key=Key("one")),
        "a key that is not published": local.token(key=Key("two")),
        "changed": f"{head}.{tail[:-4]}AAAA",
        "expired": local.token(exp=now - 31),
        "without end": local.token(exp=None),
        "not yet": local.token(nbf=now + 600),
        "for another": local.token(aud="http://127.0.0.1:8765/other"),
        "for nobody": local.token(aud=None),
        "of another issuer": local.token(iss=f"{local.url}/"),
        "of nobody": local.token(iss=None),
        "without subject": local.token(sub=None),
        "of a subject that is a number": local.token(sub=7),
        "critical": jwt.encode(
            claims, local.key.private, "ES256", headers={"kid": "one", "crit": ["b64"], "b64": True}
        ),
        "keys of its own": jwt.encode(
            claims, Key("x").private, "ES256", headers={"kid": "one", "jku": f"{local.url}/evil", "jwk": public}
        ),
        "no token at all": "a.b.c",
        "deep": ("." + "W" * 9000).join(("a", "b", "c")),
    }


async def test_forged_tokens_let_nobody_in_and_have_the_issuer_asked_once(
    place: Location, settings: Settings, local: LocalIssuer
) -> None:
    async with serving_team(place, settings, issuer_of(local)) as team:
        await add_person(team.toolbox, "ada", "admin", local.url, "ada-1")
        assert not (await team.call(local.token(), "memory_status"))[0]
        asked = len(local.asked)
        wrong = forged(local)
        statuses = {what: await _status(team, token) for what, token in wrong.items()}
        assert {what for what, status in statuses.items() if status != 401} == set()
        assert len(local.asked) == asked
        assert not (await team.call(local.token(), "memory_status"))[0]


async def _status(team: TeamServer, token: str) -> int:
    return (await team.post(token, {})).status_code


@pytest.mark.parametrize("cooled_down", [False, True])
async def test_keys_that_were_changed_are_asked_for_again_and_not_more_often(
    local: LocalIssuer, cooled_down: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cooled_down:
        monkeypatch.setattr("swarm_memory.server.http.identity.REFETCH_S", 0.0)
    issuer = issuer_of(local)
    assert (await issuer.claims_of(local.token())) is not None
    new = Key("two")
    local.key, old = new, local.key
    local.published = [new.published]
    assert ((await issuer.claims_of(local.token())) is not None) is cooled_down
    assert ((await issuer.claims_of(local.token(key=old))) is None) is cooled_down
    assert local.asked == (["/keys"] * 3 if cooled_down else ["/keys"])


async def test_keys_that_are_known_hold_while_the_issuer_is_away_and_it_is_asked_once_a_minute(
    local: LocalIssuer,
) -> None:
    known, unknown = issuer_of(local), issuer_of(local)
    assert (await known.claims_of(local.token())) is not None
    local.answers = False
    assert (await known.claims_of(local.token())) is not None
    local.asked.clear()
    for _ in range(3):
        with pytest.raises(IssuerUnavailable):
            await unknown.claims_of(local.token())
    assert local.asked == ["/keys"]


async def test_where_the_issuer_is_away_its_people_wait_and_all_others_come_in(
    place: Location, settings: Settings, local: LocalIssuer
) -> None:
    local.answers = False
    async with serving_team(place, settings, issuer_of(local)) as team:
        token = await team.add("ada", "read")
        assert await _status(team, local.token()) == 503
        assert not (await team.call(token, "memory_status"))[0]


@pytest.mark.parametrize("address", ["http://issuer.example.org", "https:///x", "http://127.0.0.1.example.org"])
def test_an_issuer_that_could_be_changed_on_the_way_is_refused(address: str) -> None:
    safe = "https://issuer.example.org"
    for issuer, keys in ((address, safe), (safe, address)):
        with pytest.raises(ConfigError, match="https"):
            Issuer(HttpSettings(oauth_issuer=issuer, oauth_keys_url=keys), AUDIENCE)


def test_an_issuer_whose_keys_are_not_named_is_said_where_to_find_them() -> None:
    with pytest.raises(ConfigError, match=r"http\.oauth_keys_url.*jwks_uri"):
        Issuer(HttpSettings(oauth_issuer="https://issuer.example.org"), AUDIENCE)
