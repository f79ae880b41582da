"""The desk in the browser: what waits, each decision, and its way back; and what an agent would be shown."""

import re

from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.tools.memories.decide import to_review
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.retrieve import retrieve
from tests.viewer.browsed import Browsing, seen

CHECKED = Provenance(judge="evidence")


async def contradicting(browser: Browsing) -> tuple[str, str]:
    """Put two memories that contradict each other into the bank."""
    one, other = [await browser.put(title, provenance=CHECKED) for title in ("Use pnpm", "Never use pnpm")]
    toolbox = await browser.toolbox()
    link = MemoryLink(src_id=one, dst_id=other, relation="contradicts", weight=0.9)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", toolbox.clock.now(), (), (link,)))
    return one, other


async def test_an_empty_desk_says_so(browser: Browsing) -> None:
    assert "Nothing is in quarantine." in await browser.text("/desk")
    await browser.page("/desk?kind=other", status=400)


async def test_two_texts_stand_side_by_side_with_a_key_for_each_decision(browser: Browsing) -> None:
    one, other = await contradicting(browser)
    page = await browser.page("/desk")  # the first kind of which something waits
    assert "Contradicting 1" in seen(page)
    assert "their advice is opposite, by 90%" in page
    keys = re.findall(r'data-key="(\w)"', page)
    assert sorted(keys) == sorted("emwfEMWFy")
    answer = await browser.post("/desk/keep", id=one, other=other, why="contradicting", back="/desk?kind=contradicting")
    assert "Kept: Use pnpm" in answer
    assert "Nothing contradicts another memory." in answer
    assert "Decided lately kept just now : Use pnpm and Never use pnpm Undo" in answer


async def test_a_merge_is_taken_back_by_the_button_that_it_leaves(browser: Browsing) -> None:
    one, other = await contradicting(browser)
    await browser.post("/desk/merge", id=other, other=one, back="/desk?kind=contradicting")
    assert (await browser.item(one)).status == "archived"
    page = await browser.page("/desk?kind=contradicting")
    form = re.search(r'action="/ui/desk/undo">(.*?)</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'name="(id|back)" value="([^"]*)"', form[1]))
    assert fields["back"] == "/desk?kind=contradicting"
    assert "Taken back: merge" in await browser.post("/desk/undo", **fields)
    assert (await browser.item(one)).status == "active"
    await browser.post("/desk/undo", status=404, **fields)


async def test_a_card_is_kept_or_withdrawn_and_leads_back_to_the_desk_alone(browser: Browsing) -> None:
    unsure = Provenance(distiller="model", judge="model")
    kept, gone = [await browser.put(f"Clear cache {at}", usage_count=2, provenance=unsure) for at in (1, 2)]
    assert "shown 2 times, and only a model vouches for it" in await browser.text("/desk?kind=unverified")
    await browser.post("/desk/keep", id=kept, why="unverified", back="//evil.example")
    answer = await browser.post("/desk/withdraw", id=gone, back="/desk?kind=unverified")
    assert "Nothing that is shown is unverified." in answer
    assert (await to_review(await browser.toolbox()))[0].total() == 0
    await browser.post("/desk/explode", id=kept, status=400)


async def test_what_an_agent_would_read_is_shown_exactly_and_recorded_nowhere(browser: Browsing) -> None:
    await browser.put("Handle login flows with CSRF tokens <b>")
    page = await browser.page("/ask?q=handle+login+flows+with+CSRF+tokens")
    toolbox = await browser.toolbox()
    assert (await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)).retrievals == 0
    notes = (await retrieve(toolbox, "handle login flows with CSRF tokens")).preamble
    assert " ".join(notes.split()) in seen(page).replace("&lt;", "<")
    assert "tokens of at most 600." in page
    assert "What was considered" in page
    assert "is shown nothing" in await browser.text("/ask?q=paint+the+wall+green")
    assert "What was considered" not in await browser.text("/ask")
