"""The tasks suite, with a command that edits files as the agent; and the scenarios' checkers."""

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from patience import FULL

from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.server.benchmark.tasks import (
    Scenario,
    TaskArm,
    TaskOptions,
    TaskReport,
    TaskResult,
    check,
    load_scenarios,
    schedule,
)
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import TASKS, benchmarked

COMMAND = shlex.join([sys.executable, str(Path(__file__).with_name("editing_agent.py"))])
ASKED: dict[str, Any] = {"tasks": "tasks", "rounds": 2, "k": 2, "command": COMMAND}


@pytest.fixture
def root(root: Path) -> Path:
    """The project's folder with one task."""
    shutil.copytree(TASKS / "payment_api", root / "tasks" / "payment_api")
    return root


def _allowing(toolbox: Toolbox) -> Toolbox:
    matts = toolbox.settings.matts.model_copy(update={"allowed_commands": (COMMAND,)})
    return replace(toolbox, settings=toolbox.settings.model_copy(update={"matts": matts}))


async def _run(toolbox: Toolbox, root: Path, **options: Any) -> tuple[BenchmarkRun, Path, list[Progress]]:
    return await benchmarked(toolbox, root, "learning", options)


async def test_a_command_does_real_tasks_in_three_arms_and_the_checker_decides(toolbox: Toolbox, root: Path) -> None:
    run, _, reports = await _run(_allowing(toolbox), root, **ASKED)
    tasks: Any = run.results.details["tasks"]
    assert [each["arm"] for each in tasks] == ["baseline"] * 2 + ["reasoningbank"] * 2 + ["reasoningbank+matts"] * 2
    by_arm = {arm: [each["met"] for each in tasks if each["arm"] == arm] for arm in ("baseline", "reasoningbank")}
    assert by_arm["baseline"] == by_arm["reasoningbank"]
    assert [each["rollouts"] for each in tasks] == [1, 1, 1, 1, 2, 2]
    assert all(each["tokens"] > 100 and not each["tokens_counted"] for each in tasks)
    assert all(each["said"] == "" for each in tasks if each["met"])
    assert all("SystemExit" in each["said"] or each["said"] == "" for each in tasks if each["rollouts"] == 1)
    assert any("they are estimated" in note for note in run.results.notes)
    assert [table.title for table in run.results.tables] == ["Real tasks", "The gate", "Each task"]
    assert reports[-1].done == reports[-1].total == 6


async def test_tasks_need_an_agent_that_is_allowed(toolbox: Toolbox, root: Path) -> None:
    with pytest.raises(InputError, match="tasks need an agent"):
        await _run(toolbox, root, tasks=str(TASKS))
    with pytest.raises(ConfigError, match="is not allowed"):
        await _run(toolbox, root, **ASKED)


async def test_what_is_missing_of_the_tasks_is_named_and_where_they_are(toolbox: Toolbox, root: Path) -> None:
    with pytest.raises(InputError, match=r"option tasks is missing: .* -o tasks=benchmarks/tasks"):
        await _run(toolbox, root, command=COMMAND)
    with pytest.raises(InputError, match=r"contains no tasks: .* benchmarks/tasks of its repository"):
        await _run(toolbox, root, tasks="nowhere")
    (root / "mine" / "half").mkdir(parents=True)
    (root / "mine" / "half" / "task.md").write_text("Do half of it.", encoding="utf-8")
    with pytest.raises(InputError, match=r"half lacks work, check\.py"):
        await _run(toolbox, root, tasks="mine")


def _scenarios() -> tuple[Scenario, ...]:
    return load_scenarios(TASKS.parent, TaskOptions(tasks=TASKS.name))


def test_every_arm_does_the_same_tasks_with_the_same_seeds() -> None:
    places = schedule(7, _scenarios(), 3)
    assert len({place.run_id for place in places}) == 6
    assert places == schedule(7, _scenarios(), 3)
    for at in range(3):
        assert {place.scenario for place in places[2 * at : 2 * at + 2]} == set(_scenarios())


def _result(arm: TaskArm, at: int, met: bool, tokens: int) -> TaskResult:
    return TaskResult(arm, "payment_api", at, met, 3, tokens, True, 1, int(met), 0, "")


@pytest.mark.parametrize(
    ("ours", "gate"),
    [
        ([(True, 50), (True, 50), (True, 50), (True, 50)], "met"),
        ([(True, 95), (True, 95), (True, 95), (True, 95)], "not met"),
        ([(True, 10), (False, 10), (False, 10), (False, 10)], "not met"),
        ([(False, 10)] * 4, "unknown: an arm has no success"),
        ([(True, 20), (True, 20), (True, 20), (True, 250)], "met by the mean, but not shown by the interval"),
    ],
)
def test_the_gate_wants_less_cost_per_success_and_no_fewer_successes(ours: list[tuple[bool, int]], gate: str) -> None:
    base = [_result("baseline", at, at != 9, 100) for at in range(4)]
    found = [_result("reasoningbank", at, met, tokens) for at, (met, tokens) in enumerate(ours)]
    (row,) = TaskReport([*base, *found], 7).results().tables[1].rows
    assert row[-1] == gate


SCENARIOS = {each.name: each for each in load_scenarios(TASKS.parent, TaskOptions(tasks=TASKS.name))}
SOLUTIONS = Path(__file__).with_name("solutions")

EARLY = '"PRAGMA user_version = 2", "COMMIT", "BEGIN IMMEDIATE", '

EVERY_WRONG: list[tuple[str, str, str, str]] = [
    ("payment_api", "in range(TRIES):", "in range(TRIES):\n            key = str(uuid.uuid4())", "four orders gave"),
    ("payment_api", "TRIES, TOLERANCE_S = 5, 300", "TRIES, TOLERANCE_S = 5, 600", "a webhook of 301 s ago"),
    ("payment_api", 'if event["id"] in self._seen:', "if False:", "taken again"),
    ("schema_migration", '"""INSERT INTO orders_new', f'{EARLY}"""INSERT INTO orders_new', "a reader found version 2"),
    ("schema_migration", 'int(part.ljust(2, "0"))', "int(part or 0)", "not those that there were"),
]
"""A right solution with one part spoilt, and the checker's message; the quickest of each scenario first."""

WRONG = EVERY_WRONG if FULL else list({each[0]: each for each in reversed(EVERY_WRONG)}.values())


def _copy(name: str, folder: Path) -> Path:
    shutil.copytree(SCENARIOS[name].work, folder, dirs_exist_ok=True)
    return folder


def _solved(name: str, folder: Path) -> Path:
    shutil.copytree(SOLUTIONS / name, _copy(name, folder), dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_task_says_what_is_wanted_and_nothing_of_its_checker(name: str) -> None:
    found = SCENARIOS[name]
    assert len(found.task) > 300
    assert "check.py" not in found.task
    assert found.work.is_dir()
    assert not list(found.work.rglob("check*"))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_untouched_folder_does_not_meet_the_task(name: str, tmp_path: Path) -> None:
    code, said = await check(SCENARIOS[name], _copy(name, tmp_path / "work"))
    assert (code, bool(said)) == (1, True)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_right_solution_meets_the_task(name: str, tmp_path: Path) -> None:
    assert await check(SCENARIOS[name], _solved(name, tmp_path / "work")) == (0, "")


@pytest.mark.fault
@pytest.mark.parametrize(("name", "right", "wrong", "said"), WRONG)
async def test_a_wrong_solution_does_not(name: str, right: str, wrong: str, said: str, tmp_path: Path) -> None:
    folder = _solved(name, tmp_path / "work")
    (file,) = (folder / each.name for each in (SOLUTIONS / name).glob("*.py"))
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    code, output = await check(SCENARIOS[name], folder)
    assert code == 1
    assert said in output
