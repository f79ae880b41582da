"""Sessions and tools in the browser: a timeline, a transcript, a verdict overruled and restored, tool errors."""

from datetime import UTC, datetime, timedelta

from scripted_runs import Script

from swarm_memory.schema.base import RETRIEVAL, new_id
from swarm_memory.schema.sqlite.events import INJECTED
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.memories import MemoryFilter, RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.tool_memory.log import learn_and_log
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox
from tests.viewer.browsed import Browsing

EVIL = "<script>alert(1)</script><img src=//x.example/y>"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


def run(task: str = "make the returns tests pass", task_id: str = "s1:1", **fields: object) -> Trajectory:
    script = Script(task, task_id=task_id).shell("pytest tests/returns", f"{MISSING}\n{EVIL}", 1)
    script.shell("cp config/test.example.toml config/test.toml", "\n".join(f"{EVIL} {line}" for line in range(40)))
    script.shell("pytest tests/returns", "12 passed in 0.32s").say(f"They pass.\u202e {EVIL}")
    return script.done().model_copy(update={"session_id": task_id.partition(":")[0], **fields})


async def injected(tools: Toolbox, task_id: str) -> str:
    """Record that the user's word was injected at a task's prompt; return its title."""
    await remember(tools, "Copy the example before the tests")
    (item,) = await tools.store.list_memories((tools.scope,), MemoryFilter(limit=1))
    now = datetime.now(UTC)
    given = RetrievalRecord(new_id(RETRIEVAL), tools.scope, "q", {item.id: 0.7}, 1.0, now, task_id, via="hook")
    await tools.store.record_retrieval(given)
    await tools.store.injections(tools.scope, task_id)
    return item.title


async def test_tasks_are_listed_by_day_filtered_and_paged(browser: Browsing) -> None:
    assert "No task is recorded yet" in await browser.text("/sessions")
    tools = await browser.toolbox()
    ended = datetime.now(UTC) - timedelta(days=3)
    await learn_and_log(tools, run(f"mend {EVIL}", "s1:1", ended_at=ended))
    await learn_and_log(tools, run("mend the ledger", "s2:1", source="codex"))
    page = await browser.page("/sessions")
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    text = await browser.text("/sessions")
    assert text.index("Codex ✓ mend the ledger") < text.index("Claude Code ✓ mend <script>")
    assert f"{ended.astimezone():%A, %d %B %Y}" in text
    assert "Taught" in text
    assert "Shown" not in text, "nothing was shown to any"
    week = (ended - timedelta(days=ended.weekday())).date()
    assert "mend <script>" in await browser.text(f"/sessions?week={week}")
    assert "No task matches these filters" in await browser.text("/sessions?week=2001-01-01")
    assert "week must be a day such as" in await browser.page("/sessions?week=soon", status=400)
    found = await browser.text("/sessions?taught=1&sort=taught")
    assert "mend <script>" in found
    assert f"{ended.astimezone():%d %b %Y}" in found
    assert "mend the ledger" not in await browser.text("/sessions?agent=claude_code")
    assert "No task matches these filters" in await browser.text("/sessions?q=zeppelin&verdict=Failure")
    assert "Page 2 No task" not in await browser.text("/sessions?agent=nobody&verdict=nothing")


async def test_a_task_is_read_with_what_was_shown_and_nothing_of_it_becomes_markup(browser: Browsing) -> None:
    tools = await browser.toolbox()
    title = await injected(tools, "s1:1")
    for via in ("call", "briefing", "file"):
        await tools.store.add_event(
            tools.scope, BankEvent(INJECTED, datetime.now(UTC), "s1:1", {"ids": [], "via": via})
        )
    learned = await learn_and_log(tools, run())
    page = await browser.page(f"/tasks/{learned.trajectory_id}")
    assert all(each in page for each in ("Shown beside the call", "as the session began", "Read in a project file"))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "\u202e" not in page
    assert 'id="s3"' in page, "an observation is reached by its step"
    assert f'href="/ui/memories/{learned.stored[0].id}"' in page
    text = await browser.text(f"/tasks/{learned.trajectory_id}")
    assert "Success" in text
    assert f"Shown at the prompt {text.partition('Shown at the prompt ')[2][:8]} {title} no sign of use" in text
    assert "s2 Bash: pytest failed" in text
    assert "Taught:" in text
    assert text == await browser.text("/tasks/s1:1?step=s4#s4")
    assert "no task or trajectory" in await browser.page("/tasks/nobody", status=404)
    for wrong in ("x", f"000000001{10**20}"):
        assert "page must be a number" in await browser.page(f"/tasks/s1:1?page={wrong}", status=400)


async def test_a_verdict_is_said_otherwise_judged_again_and_given_back(browser: Browsing) -> None:
    tools = await browser.toolbox()
    learned = await learn_and_log(tools, run())
    at = f"/tasks/{learned.trajectory_id}"
    said = await browser.post(f"{at}/verdict", label="Failure", reason="another suite")
    assert "The verdict is now Failure, by user; it was Success" in said
    assert "another suite" in said
    assert "Undo" in said
    assert "Your word stands: Failure" in await browser.post(f"{at}/again")
    assert "judged again, alongside your word: Success" in await browser.text(at)
    assert "it was Failure" in await browser.post(f"{at}/verdict", label="Success")
    assert "label must be one of" in await browser.post(f"{at}/verdict", label="Perhaps", status=400)
    await tools.store.retention.remove(tools.scope, "trajectories", datetime.now(UTC) + timedelta(days=1), 10)
    text = await browser.text(at)
    assert "The transcript was removed" in text
    assert "Judge again" not in text
    assert "nothing left to judge" in await browser.post(f"{at}/again", status=404)


async def test_tools_are_shown_with_their_errors_and_what_ended_them(browser: Browsing) -> None:
    assert "No tool calls are known yet" in await browser.text("/tools")
    tools = await browser.toolbox()
    await learn_and_log(tools, run())
    await learn_and_log(tools, run(task_id="s2:1"))
    page, text = await browser.page("/tools"), await browser.text("/tools")
    assert "<script>alert" not in page
    assert "67 % of 6 calls, 95 % interval 30 to 90 %" in page
    assert "pytest: missing file 2 times in 2 sessions" in text
    assert "worked in 2 of 2 tasks" in text
    link = page.partition('in <a href="/ui/tasks/')[2].partition('"')[0].replace("&amp;", "&")
    task, _, anchor = link.partition("#")
    assert f'id="{anchor}"' in await browser.page(f"/tasks/{task}")
    assert "pytest: missing file 2 times" in await browser.text("/tools?tool=Bash")
    assert (await summarize_tool_memory(tools, ["Bash"])).tools[0].status == "summarized"
    assert "guidelines" in (await browser.text("/tools?tool=Bash")).lower()
    assert "Bash" in await browser.text("/tools")
    assert "no tool" in await browser.page("/tools?tool=%3Cb%3E", status=404)
