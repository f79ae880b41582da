"""Memories in the browser: searched and listed, one with everything known about it, changed and undone."""

import re

from made_files import written

from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.settings import Settings, TeamSettings
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.server.location import Location
from swarm_memory.tools.memories.decide import latest_decisions
from swarm_memory.tools.promote.marks import digest, marked
from swarm_memory.tools.retrieve.retrieve import retrieve
from tests.viewer.browsed import ORIGIN, Browsing, browsing, seen

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)><h6> [a](javascript:alert(1)) \"' `<img>` {{ 7 * 7 }} "
    "http://evil.example/\u202e"
)
STEPS = "1. Parse the token.\n2. Attach it to the POST."


async def test_a_search_shows_the_parts_of_each_score_and_why_the_others_are_left_out(browser: Browsing) -> None:
    await browser.put("Handle login flows with CSRF tokens", content=STEPS)
    await browser.put("Rotate certificates of the cluster")
    await browser.put("Handle login flows", status="quarantined", status_reason="screened: an order")
    page = await browser.page("/memories?q=handle+login+flows+with+CSRF+tokens")
    text = seen(page)
    assert "An agent that asks this is shown 2 memories, of which 1 probably does not fit." in text
    assert "shown as 1 Handle login flows with CSRF tokens" in text
    assert "relevance +0.65 recency +0.05 confidence +0.05" in text
    assert '<rect class="part-relevance" x="0.00" y="0" height="6" width="65.00"/>' in page
    assert "shown as 2, unlikely to fit Rotate certificates of the cluster too far from the query" in text
    assert "screened: an order" not in text
    assert "Memories that are in quarantine, archived or of another project are not searched" in text


async def test_filters_and_parts_of_a_list_stand_in_the_address(browser: Browsing) -> None:
    for at in range(32):
        await browser.put(f"Strategy {at}", outcome="Failure" if at == 7 else "Success", domain="web" if at else None)
    first = await browser.page("/memories?domain=web")
    assert first.count('class="list marked"') == 1
    assert len(re.findall(r">Strategy \d+<", first)) == 30
    assert 'href="/ui/memories?domain=web&amp;page=2"' in first
    assert "Page 2" in await browser.text("/memories?domain=web&page=2")
    guardrails = await browser.text("/memories?kind=guardrail")
    assert "Strategy 7 guardrail" in guardrails
    assert "Strategy 8" not in guardrails
    assert "No memory matches these filters." in await browser.text("/memories?status=archived")
    for wrong in ("status=gone", "kind=thing", "page=0", "page=x"):
        await browser.page(f"/memories?{wrong}", status=400)


async def test_one_is_added_and_many_are_withdrawn_restored_and_given_back_at_once(browser: Browsing) -> None:
    assert "Added: Run `make db` first <b>" in await browser.post(
        "/memories", what="add", text="Run `make db` first <b>"
    )
    ids = [await browser.put(f"Strategy {at}") for at in range(3)]
    await browser.post("/memories", what="withdraw", status=400)
    await browser.post("/memories", what="explode", status=400)
    back = "/memories?kind=strategy"
    answer = await browser.post("/memories", ORIGIN, 303, what="withdraw", back=back, **dict.fromkeys(ids, "on"))
    assert "Withdrawn: 3 memories Undo" in answer
    assert [(await browser.item(each)).status for each in ids] == ["archived"] * 3
    assert "Restored: Strategy 1 Undo" in await browser.post(
        "/memories", what=f"restore {ids[1]}", back="//evil.example"
    )
    (restored, withdrawn) = await latest_decisions(await browser.toolbox())
    for each in (restored, withdrawn):
        assert "Undone" in await browser.post("/review/undo", id=each.id, back=back)
    assert [(await browser.item(each)).status for each in ids] == ["active"] * 3


async def test_the_users_own_word_has_no_confidence(browser: Browsing) -> None:
    await browser.post("/memories", what="add", text="Use pnpm, never npm")
    (path,) = re.findall(r'href="/ui(/memories/rm_\w+)"', await browser.page("/memories"))
    for page in ("/memories", path):
        assert "your word" in await browser.text(page)
        assert "<meter" not in await browser.page(page)


async def test_another_project_is_looked_at_and_changed_in_its_own_place(browser: Browsing) -> None:
    foreign = await browser.put("Count the money", project="bank")
    choices = await browser.page("/memories")
    assert '<option value="bank">bank (1 of its own)</option>' in choices
    assert re.search(r'<option value="\w+" selected>\w+ \(0 of its own\)</option>', choices)
    assert "Count the money" not in await browser.text("/memories")
    assert "Count the money" in await browser.text("/memories?project=bank")
    await browser.page(f"/memories/{foreign}", status=404)
    assert "Count the money" in await browser.text(f"/memories/{foreign}?project=bank")
    answer = await browser.post(f"/memories/{foreign}/withdraw", project="bank")
    assert "Withdrawn: Count the money" in answer
    assert "It is not shown: withdrawn by the user" in answer


async def test_a_memory_shows_the_very_steps_that_it_was_distilled_from(browser: Browsing) -> None:
    toolbox = await browser.toolbox()
    steps = (
        Step(id="s1", kind="message", role="user", text="Fix the login"),
        Step(id="s2", kind="tool_call", role="assistant", tool_name="Bash", tool_input={"command": f"echo {HOSTILE}"}),
        Step(id="s3", kind="observation", role="tool", text=f"boom {HOSTILE}", exit_code=2),
        Step(id="s4", kind="message", role="assistant", text="Done"),
        Step(id="s5", kind="message", role="assistant", text="Far away"),
    )
    done = Trajectory(task_id="t0", task="Fix the login", steps=steps)
    verdict = Verdict(label="Success", confidence=0.9, judge="evidence", reasons=("the tests passed",))
    kept = await toolbox.store.save_verdict(toolbox.scope, "tr_1", done, verdict)
    source = Provenance(task_id="t0", trajectory_id=kept, evidence=("s2", "s3"), judge="evidence")
    page = await browser.page(f"/memories/{await browser.put('Parse the token', provenance=source)}")
    text = seen(page)
    assert re.search(r"Bash: \S+ failed evidence", text)
    assert "echo <script>alert(1)</script>" in text
    assert "boom <script>alert(1)</script>" in text
    assert "Success the tests passed" in text
    assert "Far away" not in text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page


async def test_an_edit_keeps_the_former_text_and_is_taken_back(browser: Browsing) -> None:
    memory_id = await browser.put("Parse the token", tags=("auth",))
    form = await browser.page(f"/memories/{memory_id}/edit")
    assert 'value="Parse the token"' in form
    texts = {
        "title": "Parse the cookie",
        "description": "",
        "content": STEPS.replace("\n", "\r\n"),
        "tags": "auth, web",
    }
    answer = await browser.post(f"/memories/{memory_id}/edit", ORIGIN, 303, **texts)
    assert "Changed: Parse the cookie Undo" in answer
    item = await browser.item(memory_id)
    assert (item.title, item.content, item.tags, item.domain) == ("Parse the cookie", STEPS, ("auth", "web"), None)
    page = await browser.page(f"/memories/{memory_id}")
    assert "<del>Parse the token</del>" in page
    assert "<ins>Parse the cookie</ins>" in page
    (decided,) = await latest_decisions(await browser.toolbox())
    assert "Undone: edit" in await browser.post("/review/undo", id=decided.id, back=f"/memories/{memory_id}")
    assert (await browser.item(memory_id)).title == "Parse the token"
    await browser.post(f"/memories/{memory_id}/edit", status=400, title="x")


async def test_versions_of_many_lines_that_are_alike_are_compared_at_once(browser: Browsing) -> None:
    memory_id = await browser.put("Number the parts")
    for ending in ("", "x"):
        content = "\n".join(f"ab{number:04}{ending}" for number in range(480))
        await browser.post(f"/memories/{memory_id}/edit", ORIGIN, 303, title="Number the parts", content=content)
    assert "<ins>ab0479x</ins>" in await browser.page(f"/memories/{memory_id}")


async def test_a_promoted_memory_says_where_it_stands(browser: Browsing, place: Location) -> None:
    memory_id = await browser.put("Parse the token")
    path = ".claude/skills/learned-x/SKILL.md"
    assert path not in await browser.text(f"/memories/{memory_id}")
    written(place.root / path, marked([memory_id], digest("source"), "body"))
    assert f"agents read it in {path}" in await browser.text(f"/memories/{memory_id}")


async def test_what_is_withdrawn_is_restored_promoted_and_forgotten_after_a_question(browser: Browsing) -> None:
    memory_id = await browser.put("Parse the token", provenance=Provenance(task_id="t1"))
    await retrieve(await browser.toolbox(), "parse the token", task_id="t1")
    assert "It is not shown" in await browser.post(f"/memories/{memory_id}/withdraw")
    assert "Restored: Parse the token" in await browser.post(f"/memories/{memory_id}/restore")
    assert "every project" in await browser.post(f"/memories/{memory_id}/promote")
    assert (await browser.item(memory_id)).scope.project == "*"
    await browser.post(f"/memories/{memory_id}/explode", status=400)
    assert "This cannot be undone." in await browser.text(f"/memories/{memory_id}/forget")
    assert "Forgotten for good." in await browser.post(f"/memories/{memory_id}/forget")
    assert "shown something since forgotten" in await browser.text(), "the query went with it"
    await browser.page(f"/memories/{memory_id}", status=404)


async def test_pages_to_look_only_offer_and_change_nothing(place: Location, settings: Settings) -> None:
    async with browsing(place, settings, read_only=True) as browser:
        memory_id = await browser.put("Parse the token", status="quarantined")
        for path in (f"/memories/{memory_id}", "/review"):
            main = (await browser.page(path)).partition("<main")[2]
            assert "<button" not in main
            assert "/forget" not in main
        await browser.post(f"/memories/{memory_id}/restore", status=403)
        assert (await browser.item(memory_id)).status == "quarantined"


async def test_copies_of_the_teams_are_marked_and_offer_nothing_that_only_its_server_does(
    place: Location, settings: Settings
) -> None:
    joined = settings.model_copy(update={"team": TeamSettings(url="http://127.0.0.1:9", project="acme")})
    async with browsing(place, joined) as browser:
        copy, own = [
            await browser.put(title, project) for title, project in (("Run the seed", "team:acme"), ("Ours", None))
        ]
        page = await browser.page("/memories")
        assert "Run the seed the team's" in seen(page)
        assert (f"/memories/{own}/edit" in page, f"/memories/{copy}/edit" in page) == (True, False)
        assert "propose different wording" in await browser.text(f"/memories/{copy}")
        assert f"/memories/{copy}/forget" not in await browser.page(f"/memories/{copy}")
        assert f"/memories/{own}/forget" in await browser.page(f"/memories/{own}")
