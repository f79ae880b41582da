"""A chat model with tools in a copy of a folder: only those it is allowed, only in the copy, only allowed commands."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_chat import ScriptedChatModel

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import MattsRequest, ToolName
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.runners.build import RunnerSpec, make_runner
from swarm_memory.server.runners.model import ModelRunner
from swarm_memory.server.runners.workplace import Workplace
from swarm_memory.tools.matts.matts import run_matts
from tests.matts.worlds import TASK, Agent, matts, opened

ALL: tuple[ToolName, ...] = ("Read", "List", "Write", "Bash")


def says(tool: str = "", arguments: str = "{}", answer: str = "") -> dict[str, Any]:
    return {"thought": "go on", "tool": tool, "arguments": arguments, "answer": answer}


class Desk:
    """The tools of one rollout in a copy of a folder with two files."""

    def __init__(self, tmp_path: Path, names: tuple[ToolName, ...] = ALL, allowed: str = "") -> None:
        self.agent = Agent(tmp_path, "", notes="first", plan="second")
        (self.agent.folder / "out").symlink_to(tmp_path)
        settings, environ = MattsSettings(allowed_commands=(allowed,)), {"PATH": "/usr/bin:/bin"}
        self.workplace = Workplace(self.agent.folder, tmp_path / "scratch", settings, environ)
        self.bench = ModelRunner(ScriptedChatModel([]), self.workplace, names)
        self.request = self.agent.request()

    async def call(self, name: str, **arguments: str) -> str:
        tool = (await self.bench.tools_for(self.request))[name]
        return await tool.call(tool.arguments.model_validate(arguments))


async def test_it_reads_lists_and_writes_in_its_copy_and_the_folder_stays(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    tools = await desk.bench.tools_for(desk.request)

    async def call(name: str, **arguments: str) -> str:
        return await tools[name].call(tools[name].arguments.model_validate(arguments))

    assert await call("List", path=".") == "notes.txt\nplan.txt"
    assert await call("Read", path="notes.txt") == "first"
    assert await call("Write", path="new/made.txt", content="done") == "4 characters written"
    assert "new/made.txt" in (await call("List", path=".")).splitlines()
    assert not (desk.agent.folder / "new").exists()
    assert desk.workplace.settle(desk.request.run_id, None) is None
    assert not (tmp_path / "scratch" / desk.request.run_id).exists()


@pytest.mark.parametrize("path", ["../agent.py", "/etc/passwd", "out/agent.py", "out"])
@pytest.mark.parametrize("name", ["Read", "List", "Write"])
async def test_no_path_and_no_link_leads_out(tmp_path: Path, name: str, path: str) -> None:
    desk = Desk(tmp_path)
    given = {"path": path} | ({"content": "x"} if name == "Write" else {})
    with pytest.raises(InputError, match="within the working folder"):
        await desk.call(name, **given)


async def test_what_is_not_there_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        await desk.call("Read", path="nothing.txt")
    with pytest.raises(InputError, match="no such folder"):
        await desk.call("List", path="notes.txt")


async def test_only_allowed_command_lines_are_run_and_a_bad_end_is_shown(tmp_path: Path) -> None:
    line = f"{sys.executable} -c 'print(open(\"notes.txt\").read()); raise SystemExit(3)'"
    desk = Desk(tmp_path, allowed=line)
    assert await desk.call("Bash", command=line) == "Exit code 3\nfirst\n"
    with pytest.raises(ConfigError, match="allowed_commands"):
        await desk.call("Bash", command="cat notes.txt")
    with pytest.raises(ConfigError, match="allowed_commands"):
        await desk.call("Bash", command=f"{line}; cat notes.txt")


async def test_a_tool_that_was_not_named_is_not_there(tmp_path: Path) -> None:
    desk = Desk(tmp_path, names=("Read",))
    assert list(await desk.bench.tools_for(desk.request)) == ["Read"]


async def test_a_run_by_the_model_is_judged_by_what_its_commands_showed(tmp_path: Path) -> None:
    check = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    chat = ScriptedChatModel([
        says("Bash", json.dumps({"command": check})),
        says("Write", '{"path": "it.py", "content": "IT = 1\\n"}'),
        says("Bash", json.dumps({"command": check})),
        says(answer="The test passes."),
    ])  # fmt: skip
    agent = Agent(tmp_path, "")
    (agent.folder / "test_it.py").write_text("def test_it():\n    assert 'IT = 1' in open('it.py').read()\n")
    settings = matts(allowed_commands=[check], max_concurrency=1)
    spec = RunnerSpec(kind="model", folder="work", tools=ALL)
    async with opened(tmp_path, settings) as tools:
        runner = make_runner(spec, replace(tools, chat=chat), tmp_path, agent.scratch)
        result = await run_matts(tools, MattsRequest(task=TASK, count=1), runner)
    (rollout,) = result.run.summary.rollouts
    assert (rollout.label, rollout.is_hard) == ("Success", True), rollout
    kept = result.run.summary.best_folder
    assert kept is not None
    assert (Path(kept) / "it.py").is_file()
    assert not (agent.folder / "it.py").exists()
