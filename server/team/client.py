"""The client of a team's server in a person's installation: it bounds time and size, and contacts no other host."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter, ValidationError

from swarm_memory.schema.errors import ConfigError, InputError, NotAllowed, NotFoundError, TeamUnavailable
from swarm_memory.schema.settings import TeamSettings
from swarm_memory.schema.team.sharing import Changes, ItemEvidence, Member, Proposal, ProposalStatus, Proposed, Ruling
from swarm_memory.tools.text.cleaning import clean, one_line

if TYPE_CHECKING:
    import httpx

MAX_ANSWER_BYTES, TIMEOUT_S = 4_000_000, 10.0
MAX_SAID_CHARS = 300
BASE = "/team/v1"

T = TypeVar("T")


class TeamClient:
    """A `Team` over HTTP. It follows no redirect: its token goes only to the address in the settings."""

    def __init__(self, settings: TeamSettings, transport: "httpx.AsyncBaseTransport | None" = None) -> None:
        """Connect to nothing yet. Raises `ConfigError` without an address or a token.

        `transport` is what requests go through instead of the network.
        """
        if settings.url is None:
            raise ConfigError("there is no team: `swarm-memory team join URL` joins one")
        kept = "" if settings.token is None else settings.token.get_secret_value()
        token = os.environ.get(settings.token_env, "").strip() or kept
        if not token or not token.isascii() or not token.isprintable():
            raise ConfigError(
                f"your token for the team is missing: run `swarm-memory team join {settings.url}`, or put it in the "
                f"variable {settings.token_env}"
            )
        self._url = settings.url
        self._host = urlsplit(settings.url).hostname
        self._token = token
        self._transport = transport

    async def me(self) -> Member:
        return _as(Member, await self._ask("GET", "/me"))

    async def propose(self, bank: str, proposed: Sequence[Proposed]) -> list[Proposal]:
        body = {"bank": bank, "proposed": [each.model_dump(mode="json") for each in proposed]}
        return _as(list[Proposal], await self._ask("POST", "/proposals", body))

    async def proposals(self, status: ProposalStatus | None = "waiting", *, mine: bool = False) -> list[Proposal]:
        asked = {"status": status or "any", "mine": "yes" if mine else "no"}
        return _as(list[Proposal], await self._ask("GET", "/proposals", given=asked))

    async def decide(self, proposal_id: str, ruling: Ruling) -> Proposal:
        path = f"/proposals/{quote(proposal_id, safe='')}"
        return _as(Proposal, await self._ask("POST", path, ruling.model_dump(mode="json")))

    async def changes(self, project: str, stamp: str, after: int) -> Changes:
        asked = {"project": project, "stamp": stamp, "after": str(after)}
        return _as(Changes, await self._ask("GET", "/changes", given=asked))

    async def send_evidence(self, bank: str, counted: Sequence[ItemEvidence]) -> None:
        if counted:
            body = {"bank": bank, "counted": [each.model_dump(mode="json") for each in counted]}
            await self._ask("POST", "/evidence", body)

    async def _ask(self, method: str, path: str, body: Any = None, given: Mapping[str, str] | None = None) -> Any:
        """Send one request and return the JSON answer. No error holds the token; the server's words are shortened."""
        import httpx

        headers = {"authorization": f"Bearer {self._token}", "user-agent": "swarm-memory"}
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                httpx.AsyncClient(
                    headers=headers, timeout=TIMEOUT_S, trust_env=False, transport=self._transport
                ) as client,
                client.stream(method, f"{self._url}{BASE}{path}", params=given, json=body) as answer,
            ):
                text = bytearray()
                async for part in answer.aiter_bytes():
                    text += part
                    if len(text) > MAX_ANSWER_BYTES:
                        raise TeamUnavailable(f"the team's server answered with more than {MAX_ANSWER_BYTES:,} bytes")
        except TimeoutError:
            raise TeamUnavailable(f"{self._host} gave no complete answer within {TIMEOUT_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TeamUnavailable(f"{self._host} could not be reached ({type(error).__name__})") from None
        return self._answered(answer.status_code, bytes(text))

    def _answered(self, status: int, text: bytes) -> Any:
        if 300 <= status < 400:
            raise TeamUnavailable(f"{self._host} redirects ({status}); your token was not sent on: correct team.url")
        try:
            answer: Any = json.loads(text)
        except (ValueError, RecursionError):
            answer = None
        if status == 200 and answer is not None:
            return answer
        error = cast("dict[str, Any]", answer).get("error") if isinstance(answer, dict) else None
        said = one_line(clean(error), MAX_SAID_CHARS) if isinstance(error, str) else f"it answered {status}"
        if status == 401:
            raise ConfigError(f"{self._host} does not know your token: it was revoked, or belongs to another server")
        for known, kind in ((400, InputError), (403, NotAllowed), (404, NotFoundError)):
            if status == known:
                raise kind(f"{self._host}: {said}")
        raise TeamUnavailable(f"{self._host}: {said}")


def _as(kind: type[T], answer: Any) -> T:
    try:
        return TypeAdapter(kind).validate_python(answer)
    except ValidationError:
        raise TeamUnavailable("the team's server sent an answer that cannot be used") from None
