"""The first page, sources, jobs, benchmarks and settings in the browser."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from made_files import written
from made_tasks import Shop, done, said, verdict

from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import Passage
from swarm_memory.server.location import Location
from swarm_memory.server.missed_hooks import note_missed
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.sources.sources import index_source
from tests.viewer.browsed import Browsing, browsing, seen
from tests.viewer.hostile_bank import hostile_run


async def test_sources_are_listed_and_searched(browser: Browsing) -> None:
    assert "Nothing is indexed" in await browser.text("/sources")

    async def groups() -> AsyncIterator[ReadGroup]:
        text = "A refund <b>needs</b> the receipt."
        passage = Passage(kind="document", group="shop.md", position=0, title="Refunds", content=text)
        yield "shop.md", "1", lambda: [passage]

    await index_source(await browser.toolbox(), "document", "handbook", groups())
    assert "handbook document 1 1 just now" in await browser.text("/sources")
    assert "A refund &lt;b&gt;needs" in await browser.page("/sources?q=refund+receipt")
    assert "receipt" not in await browser.text("/sources?q=refund&kind=tool")


async def test_a_job_is_cancelled_and_begun_again_by_its_button(browser: Browsing) -> None:
    toolbox = await browser.toolbox()
    job_id = await toolbox.queue("consolidate", "bank")
    assert f"consolidate {job_id} queued" in await browser.text("/jobs")
    assert "is cancelled" in await browser.post(f"/jobs/{job_id}", action="cancel")
    assert job_id not in await browser.text("/jobs?status=queued")
    assert "is queued" in await browser.post(f"/jobs/{job_id}", action="resume")
    taken = await toolbox.store.claim("w", toolbox.clock.now(), 60, ("consolidate",), toolbox.scope)
    assert taken is not None
    await toolbox.store.finish(taken.id, "w", JobEnd("failed"))
    assert "A job failed" in await browser.text()
    assert "is queued" in await browser.post(f"/jobs/{taken.id}", action="resume")
    assert "A job failed" not in await browser.text()
    assert "action must be cancel or resume" in await browser.post(f"/jobs/{job_id}", action="delete", status=400)
    assert "Not Found" in await browser.post("/jobs/job_01J8", action="cancel", status=404)


async def test_a_run_of_a_benchmark_is_shown_with_its_tables_as_text(browser: Browsing) -> None:
    toolbox, mark = await browser.toolbox(), "<script>alert(1)</script>"
    run = hostile_run(mark)
    await toolbox.store.benchmarks.save_benchmark(toolbox.scope, run)
    assert f"{run.run_id} failed" in await browser.text("/benchmarks")
    page = await browser.page(f"/benchmarks/{run.run_id}")
    assert mark not in page
    assert f"{mark} {mark} {mark} 1 {mark}" in seen(page), "headings, and a row"
    assert "no benchmark run" in await browser.page("/benchmarks/nowhere", status=404)


async def test_settings_say_what_they_do_and_where_they_were_given_and_no_secret(
    place: Location, settings: Settings
) -> None:
    own = written(place.root / ".swarm" / "config.yaml", "retrieve: {k: 7}\n")
    users = Path.home() / ".config" / "swarm-memory" / "config.yaml"
    written(users, "embedding: {api_key: sk-do-not-show-this-one}\n")
    async with browsing(place, settings) as browser:
        found, whole = await browser.text("/settings?q=RELEVANCE"), await browser.page("/settings")
    assert "sk-do-not" not in whole
    assert f"retrieve.k 7 {own}" in seen(whole)
    assert "Weight of relevance." in found
    assert "<td></td></tr>" not in whole, "each says what it does"
    assert "retrieve.k " not in found
    assert re.findall(r'<details class="group" id="s-(\w+)" open', whole) == ["retrieve", "embedding"]


async def test_a_project_without_a_bank_is_shown_how_one_fills_and_none_is_made(
    place: Location, settings: Settings
) -> None:
    async with browsing(place, settings, made=False) as browser:
        assert "Nothing yet. A bank fills when an agent's task ends" in await browser.text()
    assert not place.database.exists()


async def test_what_was_learned_shown_and_worked_is_on_the_first_page_newest_first(browser: Browsing) -> None:
    shop = Shop(await browser.toolbox())
    await remember(shop.toolbox, "Always run `make migrate` before the tests <script>alert(1)</script>")
    await retrieve(shop.toolbox, "run the tests of the shop", task_id="task-1")
    given = await shop.add("Prepare the configuration", created_at=datetime.now(UTC))
    await shop.inject(given, task_id="task-2", at=datetime.now(UTC))
    used = done(said(f"As {given} says."), task_id="task-2", ended_at=datetime.now(UTC))
    await record_outcome(shop.toolbox, "task-2", verdict("Success"), used)
    page, text = await browser.page(), await browser.text()
    assert "<code>make migrate</code>" in page
    assert "<script>alert" not in page
    feed = text.partition("Learned → shown → worked ")[2]
    words = [each for each in feed.split() if each in ("learned", "shown", "worked")]
    assert words[:5] == ["worked", "shown", "learned", "shown", "learned"]
    assert "for “run the tests of the shop”" in feed, "a task that goes on has no page"


async def test_weeks_are_bars_that_lead_to_their_tasks_and_empty_ones_are_there(browser: Browsing) -> None:
    assert "<svg" not in await browser.page()
    toolbox, now = await browser.toolbox(), datetime.now(UTC)
    for days in (0, 200, 4000):
        task = done(said("ok"), task_id=f"t{days}", ended_at=now - timedelta(days=days))
        await toolbox.store.save_verdict(toolbox.scope, f"tr_{days}", task, verdict("Failure"))
    page = await browser.page()
    titles = re.findall(r"<title>(Week of .*?)</title>", page)
    assert len(titles) == 53, "no more than a year"
    assert titles[-1].endswith(": 1 task (1 Failure); 0 memories learned")
    assert titles[-2].endswith(": 0 tasks; 0 memories learned")
    last = page.rpartition('<a href="/ui/sessions?week=')[2].partition('"')[0]
    assert "mend the shop" in await browser.text(f"/sessions?week={last}")
    assert f">{now.year}</text>" in page


async def test_what_waits_is_decided_on_the_first_page(browser: Browsing) -> None:
    held = await browser.put("Clear the cache", status="quarantined", status_reason="screened: an order")
    assert "Waiting for your review (1) screened: an order" in await browser.text()
    answer = await browser.post("/review/keep", id=held, why="quarantined", back="/")
    assert "Kept: Clear the cache Undo" in answer


async def test_what_hooks_missed_is_shown(browser: Browsing, place: Location) -> None:
    note_missed(place.root, "UserPromptSubmit", "no answer in time")
    assert "UserPromptSubmit missed 1 time in 30 days" in await browser.text()
