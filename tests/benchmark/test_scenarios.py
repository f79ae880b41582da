"""The engineering scenarios: each checker takes a right solution, and neither the untouched folder nor a wrong one."""

import shutil
from pathlib import Path

import pytest
from patience import FULL

from swarm_memory.server.benchmark.tasks import TaskOptions, check, read_scenarios
from tests.benchmark.conftest import TASKS

SCENARIOS = {each.name: each for each in read_scenarios(TASKS.parent, TaskOptions(tasks=TASKS.name))}
SOLUTIONS = Path(__file__).with_name("solutions")

EARLY = '"PRAGMA user_version = 2", "COMMIT", "BEGIN IMMEDIATE", '

EVERY_WRONG: list[tuple[str, str, str, str]] = [
    (
        "payment_api",
        "_ in range(TRIES):",
        "_ in range(TRIES):\n            key = str(uuid.uuid4())",
        "four orders gave",
    ),
    ("payment_api", "key = str(uuid.uuid4())", "key = str(amount_cents)", "amounts are wrong"),
    ("payment_api", "self._token = None\n            elif", "pass\n            elif", "PaymentFailed"),
    ("payment_api", "TRIES, TOLERANCE_S = 5, 300", "TRIES, TOLERANCE_S = 5, 600", "a webhook of 301 s ago"),
    ("payment_api", 'if event["id"] in self._seen:', "if False:", "taken again"),
    ("payment_api", "if not any(", "if any(", "WebhookRejected"),
    ("schema_migration", '"""INSERT INTO orders_new', f'{EARLY}"""INSERT INTO orders_new', "a reader found version 2"),
    ("schema_migration", 'raise ValueError(f"{total!r} is no amount")', "return 0", "was taken for an amount"),
    ("schema_migration", 'int(part.ljust(2, "0"))', "int(part or 0)", "not those that there were"),
    ("schema_migration", " REFERENCES customers (id)", "", "foreign keys"),
    ("schema_migration", ".fetchone()[0] == 2:", ".fetchone()[0] == 9:", "a second run"),
]
"""A right solution with one part of it spoilt, and what the checker says of it; the quickest of each scenario first."""

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
