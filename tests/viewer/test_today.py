"""The first page: what was learned and shown lately, what it did, what is out of order."""

from browsed import Browsing, browsing

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from swarm_memory.server.missed import note_missed
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.retrieve.retrieve import retrieve


async def test_a_project_without_a_bank_is_shown_how_one_fills_and_none_is_made(
    place: Location, settings: Settings
) -> None:
    async with browsing(place, settings, made=False) as browser:
        assert "Nothing yet. A bank fills when a task of an agent ends" in await browser.text()
    assert not place.database.exists()


async def test_what_was_learned_and_shown_is_on_the_first_page(browser: Browsing) -> None:
    toolbox = await browser.toolbox()
    await remember(toolbox, "Always run `make migrate` before the tests <script>alert(1)</script>")
    await retrieve(toolbox, "run the tests of the shop", task_id="task-1")
    await toolbox.store.injections(toolbox.scope, "task-1")  # what is recorded behind is written first
    page = await browser.page()
    assert "1 memory in use" in await browser.text()
    assert "<code>make migrate</code>" in page
    assert "<script>alert" not in page
    assert "run the tests of the shop" in page


async def test_what_hooks_missed_is_shown(browser: Browsing, place: Location) -> None:
    note_missed(place.root, "UserPromptSubmit", "no answer in time")
    assert "UserPromptSubmit missed 1 time in 30 days" in await browser.text()
