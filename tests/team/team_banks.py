"""A team in one process: a server's bank, and people's homes that talk to it without a network."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from clock import NOW, SetClock
from laid_bank import opened_bank
from made_items import made_item, put

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.settings import Settings, TeamSettings
from swarm_memory.schema.sqlite.events import TRIED
from swarm_memory.schema.team.person import Person, Role
from swarm_memory.schema.team.sharing import Proposal, Ruling, team_scopes
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.team.bank import TeamBank
from swarm_memory.tools.team.cache import Synced, outgoing, propose, sync
from swarm_memory.tools.toolbox import Toolbox

URL, PROJECT = "https://memory.acme.example", "github.com/acme/shop"
LOGIN = ("Send the CSRF token with each login", "1. Read the token from the form.\n2. Send it with the POST.")
LOGIN_AGAIN = (
    "Send the CSRF token with every login",
    "1. Read the token from the form.\n2. Send it along with the POST.",
)


@dataclass
class Home:
    """One person's installation."""

    toolbox: Toolbox
    server: TeamBank

    async def learn(self, title: str, content: str, **fields: Any) -> str:
        """Put a memory into the bank and return its id."""
        given = {"scope": self.toolbox.scope, "content": content, "confidence": 0.6, "created_at": NOW, **fields}
        (added,) = await put(self.toolbox, made_item(title, **given))
        return added

    async def tried(self, memory_id: str, task: str, *, worked: bool) -> None:
        """Record whether a memory worked in a task of a new session."""
        fields = {"signature": "s1", "task_id": f"{task}:1", "session_id": task, "worked": worked}
        await self.toolbox.store.add_event(self.toolbox.scope, BankEvent(TRIED, NOW, memory_id, fields))

    async def propose(self, memory_id: str, word: str = "") -> Proposal:
        (proposal,) = await propose(
            self.toolbox, self.server, URL, await outgoing(self.toolbox, [memory_id], PROJECT, word)
        )
        return proposal

    async def sync(self) -> Synced:
        return await sync(self.toolbox, self.server, URL, PROJECT)

    async def decide(self, proposal: Proposal, act: Any = "accept", **options: Any) -> Proposal:
        return await self.server.decide(proposal.id, Ruling(act=act, **options))


NewHome = Callable[..., Awaitable[Home]]


@pytest.fixture
async def server(tmp_path: Path, user: None, database_url: str | None) -> AsyncIterator[Toolbox]:
    """The bank of a team's server, on the engine of the test."""
    database = tmp_path / "server" / "memory.db"
    async with opened_bank(database, scope=Scope(project="hub"), url=database_url) as opened:
        yield opened


@pytest.fixture
async def home(tmp_path: Path, server: Toolbox) -> AsyncIterator[NewHome]:
    """Return a function that makes a person with a role, and their home."""
    settings = Settings().model_copy(update={"team": TeamSettings(url=URL, project=PROJECT)})
    async with AsyncExitStack() as opened:

        async def made(name: str, role: Role = "write") -> Home:
            path = tmp_path / name / "memory.db"
            toolbox = await opened.enter_async_context(opened_bank(path, settings=settings, clock=SetClock()))
            person = Person(id=new_id("pe"), tenant_id="default", name=name, role=role, created_at=NOW)
            await server.store.people.add(person, person.id)
            toolbox = replace(toolbox, team=team_scopes("default", PROJECT))
            return Home(toolbox, TeamBank(server.by(person), person))

        yield made
