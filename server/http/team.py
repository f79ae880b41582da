"""The requests of people's installations to a team's server: JSON below `/team/v1`, each with its minimum role."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast, get_args

from pydantic import Field, ValidationError
from pydantic_core import to_jsonable_python
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import InputError, NotAllowed, NotFoundError, StorageError, SwarmMemoryError
from swarm_memory.schema.team.person import Role
from swarm_memory.schema.team.sharing import MAX_EVIDENCE, MAX_SENT, ItemEvidence, ProposalStatus, Proposed, Ruling
from swarm_memory.server.access.roles import caller_of, serving
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.tools.team.bank import TeamBank
from swarm_memory.tools.text.cleaning import faults

MAX_CURSOR = 2**62
STATUSES = (*get_args(ProposalStatus), "any")
_CODES: tuple[tuple[type[SwarmMemoryError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (InputError, HTTPStatus.BAD_REQUEST),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (SwarmMemoryError, HTTPStatus.CONFLICT),
)
"""First match wins."""

Act = Callable[[Request, TeamBank, Any], Awaitable[Any]]


class _Proposals(Model):
    bank: str = Field(max_length=100)
    proposed: tuple[Proposed, ...] = Field(max_length=MAX_SENT)


class _Evidence(Model):
    bank: str = Field(max_length=100)
    counted: tuple[ItemEvidence, ...] = Field(max_length=MAX_EVIDENCE)


async def _list(request: Request, team: TeamBank, _: object) -> Any:
    mine, status = request.query_params.get("mine") == "yes", request.query_params.get("status", "waiting")
    if status not in STATUSES:
        raise InputError(f"status must be one of {', '.join(STATUSES)}")
    if not mine:
        caller_of(request).require("review", "seeing what others propose")
    return await team.proposals(None if status == "any" else cast("ProposalStatus", status), mine=mine)


async def _changes(request: Request, team: TeamBank, _: object) -> Model:
    given = request.query_params
    after = given.get("after", "0")
    if not (after.isascii() and after.isdigit() and len(after) < 20 and int(after) <= MAX_CURSOR):
        raise InputError("after must be a cursor from an earlier answer")
    return await team.changes(given.get("project", ""), given.get("stamp", "")[:100], int(after))


ROUTES: dict[str, tuple[Role, type[Model] | None, Act]] = {
    "GET /team/v1/me": ("read", None, lambda _, team, __: team.me()),
    "GET /team/v1/changes": ("read", None, _changes),
    "GET /team/v1/proposals": ("write", None, _list),  # one's own; those of others need `review`
    "POST /team/v1/proposals": ("write", _Proposals, lambda _, team, body: team.propose(body.bank, body.proposed)),
    "POST /team/v1/evidence": ("write", _Evidence, lambda _, team, body: team.send_evidence(body.bank, body.counted)),
    "POST /team/v1/proposals/{id}": (
        "review",
        Ruling,
        lambda request, team, body: team.decide(request.path_params["id"], body),
    ),
}
"""By the method and path of a request: its minimum role, the form of its body, and what is done with it."""


def team_routes(bank: ServedBank) -> list[Route]:
    """Return the routes over a bank, which is opened at the first request. They are behind guard and body limit."""
    return [
        Route(path, _endpoint(bank, role, posted, act), methods=[method])
        for name, (role, posted, act) in ROUTES.items()
        for method, _, path in (name.partition(" "),)
    ]


def _endpoint(
    bank: ServedBank, role: Role, posted: type[Model] | None, act: Act
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        caller = caller_of(request)
        try:
            caller.require(role, "this")
            with serving(caller), bank.serving():
                team = TeamBank(await bank.toolbox(), caller.person)
                body = None if posted is None else await _given(request, posted)
                found = await act(request, team, body)
        except SwarmMemoryError as error:
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            return JSONResponse({"error": str(error)}, code)
        return JSONResponse({} if found is None else to_jsonable_python(found))

    return answer


async def _given(request: Request, kind: type[Model]) -> Model:
    """Return the body as a model of the given kind. Raises `InputError`, which quotes nothing of the body."""
    try:
        body = await request.body()
    except ClientDisconnect as error:
        raise InputError("the client disconnected during the request") from error
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise InputError(faults(error)) from error
