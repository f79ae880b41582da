"""The command runner: real processes, each in a fresh copy, ended with all that they started, and only if allowed."""

import json
import os
import shlex
import sys
from pathlib import Path

import anyio
import pytest
from patience import HANG_S

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import MattsRequest, RunnerAnswer
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.runners.command import CommandRunner
from swarm_memory.server.runners.workplace import RolloutWorkspaces, scratch_folder
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.toolbox import Toolbox
from tests.matts.worlds import TASK, Agent, matts, ran

SAYS = "import sys; print('I was asked: ' + sys.stdin.read())"
WRITES = """
import os, pathlib
here = pathlib.Path('.')
print(sorted(path.name for path in here.iterdir()))
(here / 'made.txt').write_text(os.environ['MATTS_ROLLOUT'])
"""
HANGS = """
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(60)'])
pathlib.Path('pids.txt').write_text(f'{os.getpid()} {child.pid}')
print('I have begun', flush=True)
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def words(answer: RunnerAnswer) -> str:
    """Return what the agent printed."""
    assert answer.trajectory is not None
    return answer.trajectory.steps[0].text.strip()


@pytest.mark.parametrize(
    ("program", "word", "prompt", "said"),
    [
        (SAYS, "", "Do this.", "I was asked: Do this."),
        ("import sys; print(sys.argv[1])", " {prompt}", "$(touch /tmp/never); `id` 'x", "$(touch /tmp/never); `id` 'x"),
    ],
    ids=["to the standard input", "as a word of the command, which never meets a shell"],
)
async def test_the_prompt_is_given_and_the_words_come_back(
    tmp_path: Path, program: str, word: str, prompt: str, said: str
) -> None:
    agent = Agent(tmp_path, program)
    agent.command += word
    answer = await agent.runner().run(agent.request(prompt=prompt))
    assert (answer.status, words(answer)) == ("finished", said)


async def test_each_rollout_works_in_a_fresh_copy_and_the_original_stays_as_it_is(tmp_path: Path) -> None:
    agent = Agent(tmp_path, WRITES, notes="hello")
    (agent.folder / ".swarm").mkdir()
    (agent.folder / ".swarm" / "memory.db").write_text("the bank")
    os.mkfifo(agent.folder / "pipe")
    runner = agent.runner()
    for number in (1, 2):
        assert words(await runner.run(agent.request(number))) == "['notes.txt']"
    assert sorted(path.name for path in agent.folder.iterdir()) == [".swarm", "notes.txt", "pipe"]


async def test_the_files_of_the_best_rollout_stay_and_all_others_go(tmp_path: Path) -> None:
    agent = Agent(tmp_path, WRITES)
    runner = agent.runner()
    for number in (1, 2, 3):
        await runner.run(agent.request(number))
    kept = await runner.settle("run_1", 2)
    assert kept is not None
    assert (Path(kept) / "made.txt").read_text() == "2"
    assert [path.name for path in (agent.scratch / "run_1").iterdir()] == ["2"]
    assert await runner.settle("run_1", None) is None
    assert not (agent.scratch / "run_1").exists()


async def test_a_refinement_goes_on_in_what_the_former_rollout_left(tmp_path: Path) -> None:
    agent = Agent(tmp_path, WRITES)
    runner = agent.runner()
    await runner.run(agent.request(1, mode="sequential"))
    assert "made.txt" in words(await runner.run(agent.request(2, mode="sequential")))


async def test_a_command_that_hangs_is_ended_in_time_with_what_it_started(tmp_path: Path) -> None:
    agent = Agent(tmp_path, HANGS)
    timeout_s, number, pids = 0.8, 1, list[str]()
    while True:
        answer = await agent.runner().run(agent.request(number, timeout_s=timeout_s))
        assert answer.status == "timed_out"
        noted = agent.scratch / "run_1" / str(number) / "pids.txt"
        if answer.trajectory is not None and noted.exists() and len(pids := noted.read_text().split()) == 2:
            break
        number, timeout_s = number + 1, timeout_s * 4  # a busy machine takes longer to start it
    assert "I have begun" in answer.trajectory.steps[0].text
    assert not any(is_alive(int(pid)) for pid in pids)


async def test_a_rollout_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    agent = Agent(tmp_path, HANGS)
    pids = agent.scratch / "run_1" / "1" / "pids.txt"
    with anyio.fail_after(HANG_S):
        async with anyio.create_task_group() as group:
            group.start_soon(agent.runner().run, agent.request(timeout_s=HANG_S))
            while not (pids.exists() and len(pids.read_text().split()) == 2):
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert not any(is_alive(int(pid)) for pid in pids.read_text().split())


async def test_an_exit_code_other_than_zero_is_evidence_in_the_trajectory(tmp_path: Path) -> None:
    secrets = "('-----BEGIN PRIVATE KEY-----' + '0123' * 999 + '-----END PRIVATE KEY-----') * 5"
    agent = Agent(tmp_path, f"import sys; print('half done'); sys.exit({secrets} + 'out of credit')")
    answer = await agent.runner().run(agent.request())
    assert answer.trajectory is not None
    said, _, ended = answer.trajectory.steps
    assert (answer.status, said.text.strip(), ended.exit_code, ended.is_error) == ("finished", "half done", 1, True)
    assert [each in f"{answer.error} {ended.text}" for each in ("exit code 1", "credit", "0123")] == [True, True, False]


async def test_a_check_after_the_agent_is_hard_evidence(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "import pathlib; pathlib.Path('answer.txt').write_text('42')")
    (agent.folder / "test_answer.py").write_text("assert open('answer.txt').read() == '42'; print('1 passed')")
    check = f"{shlex.quote(sys.executable)} -I test_answer.py"
    result = await ran(tmp_path, agent.runner(check=check), matts(rollout_timeout_s=4), count=1)
    (rollout,) = result.run.summary.rollouts
    assert (rollout.label, rollout.is_hard) == ("Success", True)
    assert result.run.summary.best_folder is not None
    assert (Path(result.run.summary.best_folder) / "answer.txt").exists()


async def test_an_agent_that_only_claims_success_is_undecided(tmp_path: Path) -> None:
    agent = Agent(tmp_path, "print('All tests pass. Done!')")
    assert [each.label for each in (await ran(tmp_path, agent.runner(), count=1)).run.summary.rollouts] == ["Undecided"]


@pytest.mark.parametrize(("command", "said"), [("/no/such/agent -p", "/no/such/agent"), ("", "it printed nothing")])
async def test_a_program_that_is_not_there_or_prints_nothing_fails_the_rollout(
    tmp_path: Path, command: str, said: str
) -> None:
    agent = Agent(tmp_path, "")
    agent.command = command or agent.command
    answer = await agent.runner().run(agent.request())
    assert (answer.status, answer.trajectory) == ("failed", None)
    assert said in (answer.error or "")


async def test_claude_codes_stream_is_read_call_by_call(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "1 failed in 0.1s", "is_error": True}
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": [call]}},
        {"type": "user", "session_id": "s", "message": {"role": "user", "content": [result]}},
        {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": "They fail."}},
        {"type": "result", "subtype": "success", "session_id": "s", "result": "They fail."},
    ]
    agent = Agent(tmp_path, f"print({chr(10).join(map(json.dumps, lines))!r})")
    result = await ran(tmp_path, agent.runner(), count=1)
    assert result.best is not None
    assert [step.kind for step in result.best.steps] == ["tool_call", "observation", "message"]
    assert result.run.summary.rollouts[0].label == "Failure"


async def test_an_attempt_that_the_hosts_connection_broke_off_is_no_failure(tmp_path: Path) -> None:
    said = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "API Error: refused"}]}
    lines = [
        {"type": "system", "subtype": "init", "session_id": "s"},
        {"type": "assistant", "session_id": "s", "message": said, "is_api_error_message": True},
        {"type": "result", "is_error": True, "session_id": "s", "result": "API Error: refused"},
    ]
    agent = Agent(tmp_path, f"print({chr(10).join(map(json.dumps, lines))!r}); raise SystemExit(1)")
    result = await ran(tmp_path, agent.runner(), count=2)
    assert {rollout.label for rollout in result.run.summary.rollouts} == {"Undecided"}
    assert result.stored == ()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ('{"id": "x", "task": "y", "steps": [{"role": "assistant", "content": "ok"}]}', "ok"),
        ('{"type": "result", "session_id": "s", "result": "ok"}', "ok"),
        ('{"half": ', '{"half":'),
        ("[1, 2]", "[1, 2]"),
    ],
)
async def test_other_outputs_become_steps_or_words(tmp_path: Path, printed: str, said: str) -> None:
    agent = Agent(tmp_path, f"print({printed!r})")
    answer = await agent.runner().run(agent.request())
    assert answer.trajectory is not None
    assert [(step.kind, step.text.strip()) for step in answer.trajectory.steps] == [("message", said)]


async def test_the_agent_finds_seed_and_temperature_and_none_of_our_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_MEMORY_DB", "/somewhere/memory.db")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/somewhere")
    shown = "MATTS_SEED MATTS_TEMPERATURE SWARM_MEMORY_CHILD SWARM_MEMORY_DB CLAUDE_PROJECT_DIR"
    agent = Agent(tmp_path, f"import os; print([os.environ.get(name) for name in '{shown}'.split()])")
    answer = await agent.runner().run(agent.request(seed=11, temperature=0.7))
    assert words(answer) == "['11', '0.7', '1', None, None]"


def test_a_command_runs_only_when_exactly_it_is_allowed(tmp_path: Path) -> None:
    settings = MattsSettings(allowed_commands=("claude -p", "my-agent --fast", "other"))

    def made(command: str, check: str | None = None) -> CommandRunner:
        return CommandRunner(command, RolloutWorkspaces(tmp_path, tmp_path, settings), check)

    assert made("claude  -p").name == "command:claude -p"
    for refused in ("claude", "claude -p --dangerously-skip-permissions", "rm -rf .", "claude -p; rm -rf ."):
        with pytest.raises(ConfigError, match=r"matts\.allowed_commands"):
            made(refused)
    with pytest.raises(ConfigError, match="rm"):
        made("claude -p", check="rm -rf .")
    with pytest.raises(InputError, match="empty"):
        made(" ")


async def test_a_folder_that_is_not_there_ends_the_run_with_what_to_change(tools: Toolbox, tmp_path: Path) -> None:
    agent = Agent(tmp_path, SAYS)
    agent.folder = tmp_path / "gone"
    with pytest.raises(InputError, match="name the folder"):
        await run_matts(tools, MattsRequest(task=TASK, count=2), agent.runner())


@pytest.mark.parametrize("run_id", ["../x", "a/b", "", "."])
async def test_a_run_id_never_leads_out_of_the_scratch_folder(tmp_path: Path, run_id: str) -> None:
    agent = Agent(tmp_path, SAYS)
    with pytest.raises(InputError, match="run_id"):
        await agent.runner().run(agent.request(run_id=run_id))


def test_copies_are_made_outside_of_every_project(tmp_path: Path) -> None:
    assert scratch_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "swarm-memory" / "matts"
    assert scratch_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "swarm-memory" / "matts"
