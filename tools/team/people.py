"""People of a team: added with a role, given a token, revoked; what they did is in the audit trail."""

import hashlib
import secrets
from typing import NamedTuple

from swarm_memory.schema.base import PERSON, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.team.person import MAX_NAME_CHARS, Person, Role
from swarm_memory.tools.memories.manage import MAX_IDS, combine_forgotten
from swarm_memory.tools.ports.memories import Forgotten
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

TOKEN_PREFIX = "swm_"  # noqa: S105 - how one begins, so that it is known wherever it lands
TOKEN_BYTES = 32


class Added(NamedTuple):
    """A person, and the token, which is shown only this once."""

    person: Person
    token: str


def new_token() -> str:
    """Return a token of 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def hash_of(token: str) -> str:
    """Return what is kept of a token: its SHA-256.

    256 random bits cannot be guessed, so no slow or salted hash is needed: that would make each request cost as much as
    checking a password does.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


async def add_person(toolbox: Toolbox, name: str, role: Role) -> Added:
    """Add a person. Raises `InputError` for a name that is invalid or taken."""
    person = Person(
        id=new_id(PERSON),
        tenant_id=toolbox.scope.tenant_id,
        name=_name(name),
        role=role,
        created_at=toolbox.clock.now(),
    )
    token = new_token()
    if not await toolbox.store.people.add(person, hash_of(token)):
        known = await find_person(toolbox, person.name)
        raise InputError(
            f"there is already somebody called {known.name}{' (revoked)' if known.revoked_at else ''}: "
            f"`swarm-memory team people NAME --new-token` gives them a new token, `--role` another role"
        )
    return Added(person, token)


async def renew_token(toolbox: Toolbox, name: str) -> Added:
    """Give a person a new token; the old one stops working. A person who was revoked regains access.

    Raises `NotFoundError`.
    """
    person = await find_person(toolbox, name)
    token = new_token()
    await toolbox.store.people.set_token(person, hash_of(token))
    return Added(await find_person(toolbox, name), token)


async def revoke(toolbox: Toolbox, name: str) -> Person:
    """Revoke a person's access, from the next request on. Raises `NotFoundError`."""
    person = await find_person(toolbox, name)
    await toolbox.store.people.revoke(person)
    return await find_person(toolbox, name)


async def change_role(toolbox: Toolbox, name: str, role: Role) -> Person:
    """Change a person's role, from the next request on. Raises `NotFoundError`."""
    person = await find_person(toolbox, name)
    if person.role != role:
        await toolbox.store.people.set_role(person, role)
    return person.model_copy(update={"role": role})


async def forget_person(toolbox: Toolbox, name: str) -> Forgotten:
    """Revoke a person's access, and delete for good what they brought: memories, records of tasks, calls, their name.

    The audit trail then names nobody in their place. What they changed in memories of others stays. After an
    interruption, calling this again finishes the work. Raises `NotFoundError`.
    """
    person = await find_person(toolbox, name)
    people = toolbox.store.people
    if person.revoked_at is None:
        await people.revoke(person)
    scopes = await people.scopes(person.tenant_id)
    parts: list[Forgotten] = []
    while ids := await people.contributed_ids(person, MAX_IDS):
        parts.append(await toolbox.store.forget(scopes, ids))
    records = await toolbox.store.forget_person(person)
    memories = combine_forgotten(parts)
    return memories._replace(records=memories.records + records)


async def find_person(toolbox: Toolbox, name: str) -> Person:
    """Return a person by name. Raises `NotFoundError`."""
    person = await toolbox.store.people.find(toolbox.scope.tenant_id, name=_name(name))
    if person is None:
        raise NotFoundError(f"there is nobody called {name[:MAX_NAME_CHARS]!r}: see `swarm-memory team people`")
    return person


def _name(name: str) -> str:
    cleaned = " ".join(clean(name).split())
    if not 1 <= len(cleaned) <= MAX_NAME_CHARS:
        raise InputError(f"a name must have 1 to {MAX_NAME_CHARS} characters")
    return cleaned
