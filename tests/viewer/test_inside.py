"""The first page, sources, jobs, benchmarks and settings in the browser."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from swarm_memory.schema.benchmark import BenchmarkRun, SuiteResults, Table
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import Passage
from swarm_memory.server.location import Location
from swarm_memory.server.missed import note_missed
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.sources.sources import index_source
from tests.viewer.browsed import Browsing, browsing


async def test_sources_are_listed_and_searched(browser: Browsing) -> None:
    assert "Nothing is indexed" in await browser.text("/sources")

    async def groups() -> AsyncIterator[ReadGroup]:
        text = "A refund <b>needs</b> the receipt."
        yield (
            "shop.md",
            "1",
            lambda: [Passage(kind="document", group="shop.md", position=0, title="Refunds", content=text)],
        )

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
    assert "action is cancel or resume" in await browser.post(f"/jobs/{job_id}", action="delete", status=400)
    assert "Not Found" in await browser.post("/jobs/job_01J8", action="cancel", status=404)


async def test_a_run_of_a_benchmark_is_shown_with_its_tables_as_text(browser: Browsing) -> None:
    toolbox = await browser.toolbox()
    mark = "<script>alert(1)</script>"
    results = SuiteResults(
        tables=(Table(title="Found", headings=("system", "R@5"), rows=((mark, "71.2"),), note="of 30"),),
    )
    run = BenchmarkRun(
        run_id="bench_1",
        suite="retrieval",
        status="completed",
        options={},
        settings={},
        seed=7,
        versions={},
        machine={},
        started_at=datetime.now(UTC),
        results=results,
    )
    await toolbox.store.benchmarks.save_benchmark(toolbox.scope, run)
    assert "retrieval bench_1 completed" in await browser.text("/benchmarks")
    page = await browser.page("/benchmarks/bench_1")
    assert "71.2" in page
    assert mark not in page
    assert "no run" in await browser.page("/benchmarks/nowhere", status=404)


async def test_settings_say_what_they_do_and_where_they_were_given_and_no_secret(
    place: Location, settings: Settings
) -> None:
    folder = place.root / ".swarm"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text("retrieve: {k: 7}\n", encoding="utf-8")
    user = Path.home() / ".config" / "swarm-memory" / "config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("embedding: {api_key: sk-do-not-show-this-one}\n", encoding="utf-8")
    async with browsing(place, settings) as browser:
        page = await browser.text("/settings")
    assert "sk-do-not" not in page
    assert f"retrieve.k 7 {folder / 'config.yaml'}" in page
    assert "Weight of relevance." in page


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
