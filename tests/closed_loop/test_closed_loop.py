"""The experiment itself: repeatable, its control honest, and its agent without any rule of the worlds."""

import ast
import inspect
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from laid_bank import BY_TABLE, laid
from world import advice, agent, figures, terms
from world.agent import STEP_LIMIT, attempt
from world.experiment import ARMS, NONE, Arm, OpenBank, Place, Result, is_false_cure, other_family, run_arm, schedule
from world.figures import calls, changed, gain, level, success
from world.folders import FAMILIES, IN_FOLDERS, OwnTest
from world.report import WorldReport
from world.terms import shell

from swarm_memory.schema.settings import Settings, StorageSettings
from swarm_memory.server.wiring import opened_toolbox, place_of
from swarm_memory.tools.toolbox import Toolbox

NOTES, AT_FAILURE, _, TAUGHT_NOTES, _, SHUFFLED, EVERY, FAILURES = ARMS[1:]

NOTE = (
    "<swarm-memory-notes>\n1) Run `python manage.py migrate` before `pytest` [rm_01]\n"
    '   Steps: When `pytest tests/returns -q` ends with "OperationalError: no such table", do not run it again'
    " unchanged; Run `python manage.py migrate`\n</swarm-memory-notes>\n"
)


@pytest.fixture
def open_bank(tmp_path: Path) -> OpenBank:
    names = count()

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Toolbox]:
        folder = tmp_path / f"bank-{next(names)}"
        folder.mkdir()
        settings = Settings(
            storage=StorageSettings(db=str(laid(folder / "memory.db")), project="closed-loop"), embedding=BY_TABLE
        )
        async with opened_toolbox(place_of(folder, settings), settings) as toolbox:
            yield toolbox

    return opened


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resample less: a report has hundreds of intervals, and tests check only how they lie around their values."""
    monkeypatch.setattr(figures, "RESAMPLES", 200)


async def results_of(arm: Arm, places: list[Place], open_bank: OpenBank) -> list[Result]:
    return [result async for result in run_arm(arm, places, open_bank)]


def in_memory(places: list[Place]) -> list[Place]:
    """Return the tasks without folders, which are the cheapest."""
    return [place for place in places if place.family not in IN_FOLDERS]


async def test_the_same_seed_gives_the_same_results_with_a_new_bank(open_bank: OpenBank) -> None:
    families = ("lock", "schema", "misleading")
    places = [place for place in schedule(3, 2) if place.family in families]
    for arm in (NOTES, AT_FAILURE):
        assert await results_of(arm, places, open_bank) == await results_of(arm, places, open_bank)


def refuse() -> AbstractAsyncContextManager[Toolbox]:
    raise AssertionError("a bank was opened")


async def test_every_note_of_the_family_is_what_a_bank_is_measured_against() -> None:
    places = [place for place in schedule(0, 12) if place.family in ("lock", "migration")]
    none, every = await results_of(NONE, places, refuse), await results_of(EVERY, places, refuse)
    assert {each.notes == each.own_notes for each in every} == {True}
    assert gain(every, none, success).value > 0.2


async def test_the_control_is_never_given_a_note_for_its_own_task(open_bank: OpenBank) -> None:
    places = in_memory(schedule(2, 4))
    assert all(other_family(place).family != place.family for place in places)
    results = await results_of(SHUFFLED._replace(teaches=True), places, open_bank)
    assert sum(result.notes for result in results) > 0
    assert sum(result.own_notes for result in results) < 0.2 * sum(result.notes for result in results)


def test_an_agent_ignores_notes_of_another_family() -> None:
    for seed in range(20):
        place = Place(seed, "lock", 1)
        shown, without = place.world(), place.world()
        assert attempt(shown, NOTE + shown.task, place.rng()) == attempt(without, without.task, place.rng())


def test_an_agent_follows_a_note_that_fits() -> None:
    def met(prompt: str) -> int:
        worlds = [(place.world(), place.rng()) for place in (Place(seed, "migration", 1) for seed in range(60))]
        for world, rng in worlds:
            attempt(world, prompt + world.task, rng)
        return sum(world.met for world, _ in worlds)

    assert met(NOTE) > 1.4 * met("")


def test_an_agent_stops_at_the_step_limit() -> None:
    made = [attempt(place.world(), "", place.rng()) for seed in range(20) for place in in_memory(schedule(seed, 1))]
    assert max(sum(step.kind == "tool_call" for step in steps) for steps in made) == STEP_LIMIT


@pytest.mark.parametrize("module", [agent, advice, terms])
def test_no_rule_of_a_world_is_within_reach_of_the_agent(module: ModuleType) -> None:
    source = Path(module.__file__ or "").read_text(encoding="utf-8")
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    }
    assert not any(
        word in name
        for name in imported
        for word in ("rules", "folders", "families", "experiment", "learn", "retrieve", "server")
    )
    shown = {action.text for family in FAMILIES for action in Place(0, family, 1).world().actions()}
    assert not any(text in source for text in shown if " " in text)


def test_an_agent_is_shown_the_environment_only() -> None:
    parameters = inspect.signature(attempt).parameters
    assert list(parameters) == ["environment", "prompt", "rng", "at_failure"]
    assert not hasattr(terms.Environment, "met")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_task_can_be_met_and_is_not_met_by_doing_nothing(family: str) -> None:
    assert not Place(0, family, 1).world().met
    ended = set[bool]()
    for number in range(24 if family in IN_FOLDERS else 200):
        world = Place(0, family, number).world()
        attempt(world, "", Random(number))
        ended.add(world.met)
        if len(ended) == 2:
            return
    raise AssertionError(f"every try ended the same: {ended}")


WORLDS: dict[str, list[tuple[str | int, bool]]] = {
    "flaky": [(0, True), (0, True), (0, False)],
    "two-steps": [("sh sign.sh", False), ("sh build.sh", False), (0, True), ("sh sign.sh", False), (0, False)],
    "misleading": [
        (0, True), ("sh config.sh repair", False), (0, True), ("sh format.sh reset", False), (0, True),
        ("sh spool.sh flush", False), (0, False),
    ],
    "own-test": [
        (0, True), (OwnTest.WRITE, False), ("sh convert.sh fast", False), (0, False), ("sh convert.sh strict", False),
    ],
    "token": [
        (0, True), ("ledger token issue --scope export", False), (0, False), (1, False), (2, True),
        ("ledger token issue --scope export", False), (2, False),
    ],
}  # fmt: skip
"""What is done (a number is that of a goal), and whether it fails: third try, order, wrong hint, an own test that
passes where the hidden check fails, expired token.
"""


@pytest.mark.parametrize("family", WORLDS)
def test_a_world_is_met_by_what_it_hides_alone(family: str) -> None:
    world = Place(0, family, 1).world()
    goals = [each for each in world.actions() if each.text in world.task or each.text.startswith("ledger export 2")]
    for step, fails in WORLDS[family]:
        assert not world.met
        assert world.act(goals[step] if isinstance(step, int) else shell(step)).failed == fails, step
    assert world.met


def test_a_reader_finds_commands_and_quoted_errors_and_knows_no_wording() -> None:
    first, second = advice.read_notes(
        '1) Run `a b` before `c`\n   Steps: When `c` ends with "it is locked now", stop; What did not help: `d`\n'
        "2) Checks are run with `e`\n"
    )
    assert set(first.advised) == {"a b", "c", "d"}
    assert first.meets("error: it is locked now, wait")
    assert not first.meets("error: no such thing")
    assert (second.advised, second.at_once, first.at_once) == (("e",), True, False)


def test_a_cure_is_false_when_nothing_that_is_advised_helps() -> None:
    world = Place(0, "lock", 1).world()
    (cure,) = world.cures
    shown = '1) After "another run holds the lock"\n   Steps: Run `{}`\n'
    assert is_false_cure(world, shown.format("feedsync cache clear"))
    assert not is_false_cure(world, shown.format(cure))
    assert not is_false_cure(world, shown.format(f"feedsync cache clear`, `{cure}"))
    assert not is_false_cure(world, "")


def test_tasks_that_only_one_of_two_arms_met_are_counted() -> None:
    base = Result(0, "lock", 1, "none", met=True, steps=10, label=None)
    theirs = [replace(base, number=number, met=number < 3) for number in range(5)]
    ours = [replace(each, arm="notes", met=each.number in (0, 4)) for each in theirs]
    assert changed(ours, theirs) == (2, 1)
    with pytest.raises(ValueError, match="same tasks"):
        changed(ours[1:], theirs)


def test_a_paired_gain_takes_each_seed_as_its_own_control() -> None:
    base = Result(0, "lock", 1, "none", met=False, steps=10, label=None)
    theirs = [replace(base, seed=seed, steps=seed) for seed in range(1, 9)]
    ours = [replace(each, arm="memory", steps=each.steps - 1) for each in theirs]
    assert gain(ours, theirs, calls) == (-1, -1, -1)
    assert level(theirs, calls).low < 4.5 < level(theirs, calls).high
    with pytest.raises(ValueError, match="same seeds"):
        gain(ours[1:], theirs, calls)


async def test_the_report_has_levels_and_paired_differences(open_bank: OpenBank) -> None:
    families = ("lock", "flaky")
    places = [place for seed in (1, 2) for place in schedule(seed, 1) if place.family in families]
    results = [each for arm in ARMS for each in await results_of(arm, places, open_bank)]
    found = WorldReport(results).results()
    values = {(each.subject, each.measure): each.value for each in found.figures}
    gained = values["notes", "success_rate"] - values["none", "success_rate"]
    assert values["notes less none", "success_rate"] == pytest.approx(gained, abs=1e-3)
    assert {arm.name for arm in ARMS} <= {each.subject for each in found.figures}
