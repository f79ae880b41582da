"""The pages of a real bank, as an authorized browser requests them; no network, no scripts."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx
from laid_bank import laid
from made_items import made_item, put

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.server.config import ResolvedSettings, resolve_settings
from swarm_memory.server.http.identity import Authenticator
from swarm_memory.server.location import Location
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.viewer.page import BrowserSessions
from swarm_memory.server.viewer.viewer import Viewer
from swarm_memory.server.wiring import SystemClock, empty_toolbox, open_toolbox
from swarm_memory.tools.memories.manage import get_memories
from swarm_memory.tools.toolbox import Toolbox

ORIGIN = "http://127.0.0.1:8765"
NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass
class Browsing:
    """A browser without scripts, and the bank that it sees."""

    client: httpx.AsyncClient
    access: BrowserSessions
    bank: ServedBank

    async def page(self, path: str = "", status: int = 200) -> str:
        """Return the page at a path below `/ui`."""
        answer = await self.client.get(f"/ui{path}")
        assert answer.status_code == status, answer.text
        return answer.text

    async def crawl(self, at_most: int = 120) -> dict[str, str]:
        """Return every page that our links lead to, by path, starting from the first page."""
        found: dict[str, str] = {}
        waiting = ["/ui"]
        while waiting and len(found) < at_most:
            path = waiting.pop(0)
            answer = await self.client.get(path)
            assert answer.status_code == 200, (path, answer.text)
            found[path] = answer.text
            links = map(unescape, re.findall(r'<a\b[^>]*? href="(/ui[^"#]*)', answer.text))
            waiting += [each for each in dict.fromkeys(links) if each not in found and each not in waiting]
        return found

    async def text(self, path: str = "") -> str:
        """Return what a reader sees on a page: words without markup, on one line."""
        return seen(await self.page(path))

    async def post(self, path: str, origin: str = ORIGIN, status: int = 303, **fields: str) -> str:
        """Post a form with the page's token, and return the text of the next page."""
        shown = await self.client.get("/ui")
        token = re.search(r'name="form_token" value="([^"]+)"', shown.text)
        given = {"form_token": token[1] if token else "", **fields}
        headers = {"origin": origin, "content-type": "application/x-www-form-urlencoded"}
        answer = await self.client.post(f"/ui{path}", content=urlencode(given), headers=headers)
        assert answer.status_code == status, answer.text
        return seen((await self.client.get(answer.headers["location"])).text if status == 303 else answer.text)

    async def toolbox(self) -> Toolbox:
        """Return the toolbox of the viewed bank."""
        return await self.bank.toolbox()

    async def put(self, title: str, project: str | None = None, **fields: Any) -> str:
        """Put a memory into the bank, and return its id."""
        toolbox = await self.toolbox()
        (added,) = await put(toolbox, made_item(title, scope=toolbox.in_project(project).scope, **fields))
        return added

    async def item(self, memory_id: str) -> MemoryItem:
        """Return a memory of the bank."""
        (item,) = await get_memories(await self.toolbox(), [memory_id])
        return item


def seen(page: str) -> str:
    """Return the words of a page, without markup."""
    body = page.partition("<body>")[2]
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


@asynccontextmanager
async def browsing(
    place: Location, settings: Settings, *, read_only: bool = False, made: bool = True, let_in: bool = True
) -> AsyncGenerator[Browsing]:
    """Open the pages of a project; `made`: its bank exists."""
    if made and not place.is_remote:
        laid(place.database)
    bank = ServedBank(
        lambda: open_toolbox(place, settings), None, place.root, lambda: place, lambda: empty_toolbox(place, settings)
    )
    access = BrowserSessions(NAMES, Authenticator("token-of-the-server-that-is-long-enough", bank))

    def resolved() -> ResolvedSettings:
        return resolve_settings(place.root, {})

    viewer = Viewer(bank, access, resolved, SystemClock().now, read_only=read_only)
    transport = httpx.ASGITransport(viewer)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        if let_in:
            assert (await client.get(viewer.link(""))).status_code == 200
        try:
            yield Browsing(client, access, bank)
        finally:
            await bank.close()
