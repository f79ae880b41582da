"""The engineering scenarios: each checker takes a right solution, and neither the untouched folder nor a wrong one."""

import re
import shutil
from pathlib import Path

import pytest
from patience import AT_FULL_LENGTH, FULL

from swarm_memory.server.benchmark.tasks import Scenario, TaskOptions, check, read_scenarios
from tests.benchmark.conftest import TASKS

SCENARIOS = {each.name: each for each in read_scenarios(TASKS.parent, TaskOptions(tasks=TASKS.name))}
SOLUTIONS = Path(__file__).with_name("solutions")

WAITING = {"zero_downtime_deploy"}
"""Its checker serves requests for ten seconds before it says that a solution is right; a wrong one ends sooner."""

LARGE = {"batch_csv": ("ROWS", "40_000")}
"""Whose checker gives a right solution less to do in each run than in `make faults`."""

IMPATIENT = ("LIMIT_S", "4")
"""A checker waits for a few seconds only where what it checks never ends."""

NEVER_ENDS = "did not end within"
EARLY = '"PRAGMA user_version = 2", "COMMIT", "BEGIN IMMEDIATE", '

EVERY_WRONG: list[tuple[str, str, str, str]] = [
    ("web_scraping", "*(fetch(urljoin(following, part)) for part in page.parts)", "", "products instead of"),
    ("web_scraping", "and following not in seen", "", NEVER_ENDS),
    ("web_scraping", "error.code != 503 or", "error.code == 503 or", "it ended with code 1"),
    (
        "web_scraping",
        "or attempt == 3:\n                raise",
        "or attempt == 3:\n                return Page()",
        "never came",
    ),
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
    ("batch_csv", "enumerate(reader, start=1):", "enumerate(list(reader), start=1):", "and 64 MB it ended with code"),
    ("batch_csv", 'int(row[2].replace(".", ""))', "int(float(row[2]) * 100)", "not as it must be"),
    ("batch_csv", 'errors="surrogateescape"', 'errors="strict"', "it ended with code 1"),
    ("batch_csv", 'Path(f"{out}.new"), Path(f"{errors}.new")', "Path(out), Path(errors)", "an error changed what was"),
    ("zero_downtime_deploy", "if not is_ready(port):", "if False:", "sick-v3"),
    ("zero_downtime_deploy", "time.sleep(DRAIN_S)", "pass", "requests failed"),
    ("zero_downtime_deploy", "service.kill()\n        service.wait()", "pass", "services run on"),
    ("zero_downtime_deploy", "check=False).returncode != 0", "check=False).returncode == 9", "stuck-v4"),
    ("zero_downtime_deploy", 'os.kill(old["pid"], signal.SIGTERM)', "pass", "services run on"),
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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=AT_FULL_LENGTH if name in WAITING else ()) for name in SCENARIOS]
)
async def test_a_right_solution_meets_the_task(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    if name in LARGE and not FULL:
        scenario = _changed(scenario, tmp_path / "task", LARGE[name])
    assert await check(scenario, _solved(name, tmp_path / "work")) == (0, "")


@pytest.mark.fault
@pytest.mark.parametrize(("name", "right", "wrong", "said"), WRONG)
async def test_a_wrong_solution_does_not(name: str, right: str, wrong: str, said: str, tmp_path: Path) -> None:
    folder = _solved(name, tmp_path / "work")
    (file,) = (folder / each.name for each in (SOLUTIONS / name).glob("*.py"))
    text = file.read_text(encoding="utf-8")
    assert right in text
    file.write_text(text.replace(right, wrong), encoding="utf-8")
    scenario = SCENARIOS[name]
    if said == NEVER_ENDS:
        scenario = _changed(scenario, tmp_path / "task", IMPATIENT)
    code, told = await check(scenario, folder)
    assert code == 1
    assert said in told


def _changed(scenario: Scenario, folder: Path, value: tuple[str, str]) -> Scenario:
    """Return the task with a checker in which one value is another."""
    shutil.copytree(scenario.check.parent, folder)
    name, other = value
    text, changed = re.subn(
        rf"^{name} = [\d_]+$", f"{name} = {other}", scenario.check.read_text("utf-8"), flags=re.MULTILINE
    )
    assert changed == 1
    (folder / "check.py").write_text(text, "utf-8")
    return scenario._replace(check=folder / "check.py")
