"""A model sees finished tasks only with the user's permission: those that are worth it, within the daily budget."""

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from claude_lines import SESSION, Line, call, prompt, result, says, text, write
from made_work import made_job
from pydantic import JsonValue

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import ChatSettings, Settings
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import make_worker, opened_toolbox
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.toolbox import Toolbox

EVENTFUL: list[Line] = [
    prompt("The checkout tests fail with a SettingsError, please mend them"),
    says(call("c1", "make test")),
    result("c1", "Exit code 2\nno rule to make target 'test'", error=True),
    says(call("c2", "cat Makefile")),
    result("c2", "tests: settings\n\tpytest -q"),
    says(call("c3", "make settings")),
    result("c3", "wrote settings.toml"),
    says(call("c4", "make tests")),
    result("c4", "2 passed"),
    says(text("Done: they pass.")),
]
SHORT: list[Line] = [
    prompt("Now a new task: print the version of the shop"),
    says(call("d1", "make version")),
    result("d1", "1.2.3"),
    says(text("It is 1.2.3.")),
]
USAGE = {"input_tokens": 1000, "output_tokens": 100}
ANSWER = {"type": "result", "subtype": "success", "is_error": False, "result": "{}", "total_cost_usd": 0.01}


class Claude:
    """A program in place of Claude Code that records how it was called, and returns no usable answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "claude"
        program.write_text(
            f"#!{sys.executable} -IS\nimport json, sys, uuid\n"
            "call = json.dumps([sys.argv[1:], sys.stdin.read()])\n"
            f"open({str(folder)!r} + '/call-' + uuid.uuid4().hex, 'w').write(call)\n"
            f"print({json.dumps(ANSWER | {'usage': USAGE})!r})\n"
        )
        program.chmod(0o755)

    def calls(self) -> list[Any]:
        return [json.loads(path.read_text()) for path in self.folder.glob("call-*")]


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claude:
    program = Claude(tmp_path / "programs")
    monkeypatch.setenv("PATH", f"{program.folder}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.fixture
def transcript(home: Path) -> Path:
    return write(home / ".claude" / "projects" / "shop" / f"{SESSION}.jsonl", [*EVENTFUL, *SHORT])


@pytest.fixture
def settings() -> Settings:
    """Settings that give a job as much time as a busy machine needs to start a program."""
    return Settings()


def with_leave(**chat: Any) -> Settings:
    return Settings(chat=ChatSettings.model_validate(chat))


async def queue(toolbox: Toolbox, transcript: Path) -> None:
    payload: dict[str, JsonValue] = {"transcript_path": str(transcript), "session_id": SESSION}
    job = made_job(f"{SESSION}:all", datetime.now(UTC), scope=toolbox.scope, payload=payload)
    await toolbox.store.enqueue(job)


async def worked_off(toolbox: Toolbox, place: Location, transcript: Path, leave: Settings) -> int:
    """Let a worker learn from a transcript with the permission `leave`; return how many jobs that took."""
    await queue(toolbox, transcript)
    return await make_worker(toolbox, place, lambda: leave).work_off_due()


async def verdicts(toolbox: Toolbox) -> Mapping[str, str]:
    """Return the verdict on each task that was learned from."""
    said: dict[str, str] = {}
    for job in await toolbox.store.list_jobs(toolbox.scope, ("completed", "failed"), 10):
        tasks = (job.result or {}).get("tasks")
        assert isinstance(tasks, dict), job.error
        said |= {task: str(each) for task, each in tasks.items() if not str(each).startswith("queued")}
    return said


async def test_with_leave_claude_code_is_asked_about_the_task_that_is_worth_it_alone_and_counted_by_day(
    toolbox: Toolbox, place: Location, transcript: Path, claude: Claude
) -> None:
    assert await worked_off(toolbox, place, transcript, with_leave(learn_with="claude")) == 2
    assert set(await verdicts(toolbox)) == {f"{SESSION}:1", f"{SESSION}:2"}
    calls = claude.calls()
    assert calls
    for arguments, sent in calls:
        assert "--model=haiku" in arguments
        assert "make settings" in sent
        assert "print the version" not in sent
    (day,) = await toolbox.store.chat_days(datetime.now(UTC) - timedelta(days=6))
    assert (day.day, day.tokens) == (f"{datetime.now(UTC):%Y-%m-%d}", 1100 * len(calls))
    assert day.cost_usd == pytest.approx(0.01 * len(calls))


NAMED: list[dict[str, str]] = [{"provider": "claude_cli"}]


@pytest.mark.parametrize("chat", [{}, {"learn_with": "rules"}, {"learn_with": "rules", "providers": NAMED}], ids=str)
async def test_a_key_in_the_environment_a_program_and_models_for_other_things_are_no_leave(
    toolbox: Toolbox,
    place: Location,
    transcript: Path,
    claude: Claude,
    monkeypatch: pytest.MonkeyPatch,
    chat: dict[str, Any],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
    await worked_off(toolbox, place, transcript, with_leave(**chat))
    assert len(await verdicts(toolbox)) == 2
    assert claude.calls() == []
    assert (await memory_status(toolbox)).chat is None
    assert [each.name for each in with_leave(providers=NAMED).chat.learning] == ["claude_cli:default"]


async def test_leave_that_is_taken_back_or_cannot_be_read_counts_at_once(
    toolbox: Toolbox, place: Location, transcript: Path, claude: Claude
) -> None:
    leaves = [with_leave(learn_with="claude"), with_leave(learn_with="rules")]

    def read() -> Settings:
        if not leaves:
            raise ConfigError("the file is not valid YAML")
        return leaves.pop()

    worker = make_worker(toolbox, place, read)
    await queue(toolbox, transcript)
    await worker.work_off_due()
    assert (leaves, claude.calls()) == ([with_leave(learn_with="claude")], [])
    leaves.clear()
    write(transcript, [*EVENTFUL, prompt("no, that is wrong: it still fails"), says(text("I see."))])
    await queue(toolbox, transcript)
    await worker.work_off_due()
    assert claude.calls() == []
    assert len(await verdicts(toolbox)) == 2


async def test_once_the_user_has_said_who_learns_no_model_is_asked_about_calls_of_tools_either(
    place: Location, transcript: Path, claude: Claude
) -> None:
    named = with_leave(learn_with="rules", providers=NAMED)
    async with opened_toolbox(place, named) as toolbox:
        await queue(toolbox, transcript)
        worker = make_worker(toolbox, place)
        await worker.work_off_all()
        assert await worker.work_off_all() == 1, "the calls that the first one logged"
        counts = await toolbox.store.tool_memory.counts(toolbox.scope)
    assert (counts.calls, counts.not_evaluated) == (5, 0)
    assert claude.calls() == []


async def test_where_whole_files_are_read_a_named_model_is_asked_about_what_is_worth_it_alone(
    place: Location, transcript: Path, claude: Claude
) -> None:
    async def ignore(_: Progress) -> None:
        return None

    async with opened_toolbox(place, with_leave(providers=NAMED)) as toolbox:
        assert (await import_files(toolbox, [transcript], False, ignore)).tasks == 2
    assert claude.calls()
    assert not any("print the version" in sent for _, sent in claude.calls())
