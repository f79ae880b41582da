"""Harmful and useless memories planted among those that the tasks teach: how soon the lots find them, and the price."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import fmean, median

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.benchmark import Table
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.outcome import Lift, TaskFigures
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.credit.holdout import Lots
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.credit.lift import HARM, MOST_LEFT_OUT, Lot, posterior, rates_of, worth_of
from swarm_memory.tools.credit.sequences import Term, side_of, weighted
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.preamble import preamble
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from world.agent import attempt
from world.experiment import ARMS, Bank, Place, run_arm, schedule
from world.figures import estimate

HARMFUL = {
    "migration": ("OperationalError: no such table", "pytest tests", ("make clean", "manage.py flush", "git pull")),
    "lock": ("another run holds the lock", "feedsync run", ("feedsync cache clear", "rm -rf out", "feedsync init")),
    "token": ("401 Unauthorized: token is missing", "ledger export", ("ledger login", "ledger ping", "ledger whoami")),
    "rate-limit": ("429 Too Many Requests", "quotes get", ("quotes reset", "sleep 1", "quotes cache clear")),
}
"""By family, of those in memory whose tasks a note can change: its error, its goal, and what does not help."""

LEARNED, MOST = 6, 6
"""Tasks of each family that are learned from; so many memories are looked at for a task."""

MEASURED_EVERY = 20
"""Tasks: the product measures after each, which finds the same at most so much sooner."""

KINDS = ("harmful", "hardly harmful", "useless", "learned")

DECIDED, WEIGHT = 0.8, 0.9
"""Tasks that the judge decides in these worlds, nearly all of them rightly, and how much such a verdict counts."""

CHANCES = ((0.1, 0.7), (0.3, 0.7), (0.5, 0.7), (0.6, 0.7), (0.5, 0.5), (0.9, 0.9), (0.7, 0.6), (0.7, 0.5), (0.7, 0.3))
"""That a task is met where it is told a memory, and where it is not."""

SPREAD = 0.2
"""Standard deviation of lifts, for what is simulated alone."""

LOOK = 5
BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
NOTES = next(arm for arm in ARMS if arm.name == "notes")


@dataclass(frozen=True, slots=True)
class Run:
    """What became of the tasks of one seed, with or without planted memories, with or without lots."""

    seed: int
    planted: bool
    dropout: float
    met: tuple[bool, ...]
    """In the order of the tasks."""
    withdrawn: tuple[tuple[str, int], ...]
    """Kind, and in how many tasks it was told or left out until then."""
    kinds: tuple[tuple[str, int], ...]
    """How many memories of each kind were measured."""
    proven: tuple[tuple[str, int], ...]
    lifts: tuple[tuple[str, float], ...]
    """Kind, and the lift at the end, of those that were left out once at least."""
    lots: tuple[tuple[str, int, int], ...] = ()
    """Kind, how often each was told, and left out."""


OpenWith = Callable[[float], AbstractAsyncContextManager[Bank]]
"""Opens a new, empty bank whose tasks draw lots at a rate."""


async def run_planted(
    seed: int, tasks: int, *, planted: bool, dropout: float, open_bank: OpenWith, learned: int = LEARNED
) -> Run:
    """Learn from the first `learned` tasks of each family, with or without planted memories, then do `tasks` more.

    Learning and searching are the product's own, each family's memories searched once after the learning; so are lots,
    notes and estimates. What the judge would say is drawn: it decides so many tasks, and rightly.
    """
    kinds: dict[str, str] = {}
    found: dict[str, list[MemoryItem]] = {}
    async with open_bank(0.0) as bank:
        if planted:
            kinds = await _plant(bank.toolbox, seed)

        @asynccontextmanager
        async def opened() -> AsyncGenerator[Bank]:
            yield bank

        places = [place for place in schedule(seed, learned) if place.family in HARMFUL]
        _ = [result async for result in run_arm(NOTES, places, opened)]
        for family in HARMFUL:
            told = await retrieve(bank.toolbox, Place(seed, family, learned + 1).world().task, k=MOST)
            found[family] = [each.item for each in told.memories]
    life = _Life(seed, dropout, found)
    later = [place for place in schedule(seed, learned + tasks) if place.number > learned and place.family in HARMFUL]
    met = tuple(life.do(place) for place in later)
    if dropout:
        harmful = [each for each, kind in kinds.items() if kind == "harmful"]
        kinds |= {each: "hardly harmful" for each in harmful if _lift_of(each, found, later) > -HARM}
    of = [(kinds.get(lift.of, "learned"), lift) for lift in life.measure()]
    return Run(
        seed=seed,
        planted=planted,
        dropout=dropout,
        met=met,
        withdrawn=tuple((kinds.get(each, "learned"), count) for each, count in life.withdrawn.items()),
        kinds=tuple((name, sum(kind == name for kind, _ in of)) for name in KINDS),
        proven=tuple((name, sum(kind == name and lift.worth == "proven" for kind, lift in of)) for name in KINDS),
        lifts=tuple((kind, lift.success.value) for kind, lift in of if lift.success and lift.left_out),
        lots=tuple((kind, lift.told, lift.left_out) for kind, lift in of),
    )


def _lift_of(memory_id: str, found: Mapping[str, Sequence[MemoryItem]], places: Sequence[Place]) -> float:
    """Return what a memory truly changes: its family's tasks with all notes less without it, on the same streams."""
    gains: list[int] = []
    for place in places:
        told = found[place.family][: RetrieveSettings().k]
        if memory_id in {item.id for item in told}:
            without = [item for item in told if item.id != memory_id]
            gains.append(_is_met(place, told) - _is_met(place, without))
    return fmean(gains) if gains else 0.0


def _is_met(place: Place, told: Sequence[MemoryItem]) -> bool:
    world = place.world()
    notes = preamble([(item.id, item.title, item.content) for item in told])
    attempt(world, f"{notes}\n\n{world.task}", place.rng(), NOTES.read)
    return world.met


class _Life:
    """Tasks that are told what was found for their family, but for what a lot leaves out and what withdrew itself."""

    def __init__(self, seed: int, dropout: float, found: Mapping[str, Sequence[MemoryItem]]) -> None:
        self.withdrawn: dict[str, int] = {}
        """By id, in how many tasks it was told or left out until then."""
        self._lots = Lots(dropout=dropout, key=f"seed {seed}".encode())
        self._found = found
        self._items = {item.id: item for some in found.values() for item in some}
        self._drawn: list[Lot] = []
        self._done = 0

    def do(self, place: Place) -> bool:
        """Do a task; return whether it was met."""
        told = [item for item in self._found[place.family] if item.id not in self.withdrawn][: RetrieveSettings().k]
        left_out = self._lots.left_out(place.key, [item.id for item in told])
        met = _is_met(place, [item for item in told if item.id not in left_out])
        is_decided = Random(f"judge-{place.key}").random() < DECIDED
        label: Label = "Undecided" if not is_decided else "Success" if met else "Failure"
        self._done += 1
        at, weight = BEGAN + timedelta(minutes=self._done), WEIGHT * is_decided
        task = TaskOutcome(place.key, label, "memory", False, TaskFigures(), len(told), 0, at, weight)
        rates = {item.id: self._lots.rate_of(item.id) for item in told}
        self._drawn += [Lot(each, each not in left_out, rate, at, task) for each, rate in rates.items() if rate]
        if self._done % MEASURED_EVERY == 0:
            lifts = self.measure()
            self._lots = self._lots._replace(rates=rates_of(lifts, self._lots.rate))
            for lift in lifts:
                if lift.worth == "harmful":
                    self.withdrawn.setdefault(lift.of, lift.told + lift.left_out)
        return met

    def measure(self) -> Sequence[Lift]:
        """Return what each memory is worth by now."""
        return worth_of(self._drawn, self._items, {})["memories"] if self._drawn else ()


async def _plant(toolbox: Toolbox, seed: int) -> dict[str, str]:
    """Put a harmful memory of one family into the bank and a useless one of each of the others; return the kinds.

    With the six or so that the tasks teach these are about one in ten and three in ten.
    """
    kinds = dict[str, str]()
    items: list[MemoryItem] = []
    for number, (family, (error, goal, decoys)) in enumerate(HARMFUL.items()):
        if number == seed % len(HARMFUL):
            kind, title = "harmful", f"After {error} run `{decoys[0]}`"
            steps = [f'When `{goal}` ends with "{error}", `{goal}` never succeeded again.']
            steps += [f"Run `{decoy}`." for decoy in decoys]
        else:
            kind, title = "useless", f"Keep a log of {family} runs"
            steps = [f'After "{error}" write the time of the {goal} into a log.']
        item = MemoryItem(
            id=new_id(MEMORY),
            scope=toolbox.scope,
            title=title,
            description=f"When `{goal}` is refused: {error}",
            content="\n".join(f"{at}. {step}" for at, step in enumerate(steps, 1)),
            confidence=0.8,
            created_at=toolbox.clock.now(),
            provenance=Provenance(judge="evidence"),
        )
        kinds[item.id] = kind
        items.append(item)
    await toolbox.store.add_memories(await prepare(toolbox, items), toolbox.embedder.name)
    return kinds


def planted_tables(runs: Sequence[Run]) -> list[Table]:
    """Return what became of the tasks in each arm, and of the memories where lots were drawn."""
    arms = sorted({(run.planted, run.dropout) for run in runs})
    of = {arm: [run for run in runs if (run.planted, run.dropout) == arm] for arm in arms}
    rows: list[tuple[str, ...]] = []
    for (planted, dropout), found in of.items():
        base = of[(planted, 0.0)]
        halves = [estimate([fmean(part(run.met)) for run in found]) for part in (_first, _second)]
        gains = [
            estimate([fmean(part(one.met)) - fmean(part(other.met)) for one, other in zip(found, base, strict=True)])
            for part in (_first, _second)
        ]
        name = f"{'planted' if planted else 'as learned'}, dropout {dropout:g}"
        rows.append((name, *map(str, halves), *(map(str, gains) if dropout else ("", ""))))
    note = "means over seeds, 95 % bootstrap intervals over seeds; each seed is its own control"
    headings = ("arm", "met, first half", "met, second half", "less dropout 0, first", "second")
    tables = [Table(title="Tasks met", headings=headings, rows=tuple(rows), note=note)]
    for (planted, dropout), found in of.items():
        if dropout:
            title = f"Memories, {'planted' if planted else 'as learned'}, dropout {dropout:g}"
            tables.append(_memories(title, found))
    return tables


def _memories(title: str, runs: Sequence[Run]) -> Table:
    rows: list[tuple[str, ...]] = []
    for kind in KINDS:
        measured = sum(dict(run.kinds)[kind] for run in runs)
        gone = [each for run in runs for each in run.withdrawn if each[0] == kind]
        lifts = [lift for run in runs for name, lift in run.lifts if name == kind]
        lots = [each for run in runs for each in run.lots if each[0] == kind]
        left_out, drawn = sum(each[2] for each in lots), sum(each[1] + each[2] for each in lots)
        share = wilson(len(gone), measured) if measured else None
        rows.append(
            (
                kind,
                str(measured),
                "-" if share is None else f"{len(gone)} = {share.value:.3f} [{share.low:.3f}, {share.high:.3f}]",
                str(round(median(each[1] for each in gone))) if gone else "-",
                str(sum(dict(run.proven)[kind] for run in runs)),
                f"{fmean(lifts):+.2f}" if lifts else "-",
                f"{left_out / drawn:.2f}" if drawn else "-",
            )
        )
    note = (
        f"harmful: costs {HARM} of its tasks or more in truth; until: tasks in which it was told or left out, the "
        "median; lift: as measured at the end, the mean; left out: of all lots"
    )
    headings = ("kind", "measured", "withdrew", "until", "proven", "lift", "left out")
    return Table(title=title, headings=headings, rows=tuple(rows), note=note)


def _first(met: tuple[bool, ...]) -> tuple[bool, ...]:
    return met[: len(met) // 2]


def _second(met: tuple[bool, ...]) -> tuple[bool, ...]:
    return met[len(met) // 2 :]


def patience_table(dropout: float, runs: int = 200, tasks: int = 500) -> Table:
    """Return how soon the sign of a lift is known, by simulation of the tasks of one memory that draw lots alone."""
    rows: list[tuple[str, ...]] = []
    for told, left_out in CHANCES:
        ends = [_end(Random(f"{told} {left_out} {run}"), told, left_out, dropout, tasks) for run in range(runs)]
        known = {side: sorted(count for found, count in ends if found == side) for side in (-1, 1)}
        cells = [
            f"{len(counts) / runs:.3f}" + (f", {counts[len(counts) // 2]}" if counts else "")
            for counts in (known[-1], known[1])
        ]
        soon = sum(count <= 100 for count in known[-1]) / runs
        rows.append((f"{told:g}", f"{left_out:g}", f"{told - left_out:+.1f}", f"{soon:.3f}", *cells))
    headings = (
        "met, told",
        "left out",
        "lift",
        "withdrawn by 100",
        f"by {tasks}, median",
        f"proven by {tasks}, median",
    )
    note = f"{runs} memories each, looked at after every {LOOK} of their tasks; verdicts count {WEIGHT}"
    return Table(title=f"How soon it is known, dropout {dropout:g}", headings=headings, rows=tuple(rows), note=note)


def _end(rng: Random, told: float, left_out: float, rate: float, tasks: int) -> tuple[int, int]:
    """Return on which side of 0 a lift is known to be, and after how many tasks; 0 where it is not known."""
    terms: list[Term] = []
    total, count, least = 1.0, 2, rate
    whole = value = off2 = 0.0
    while len(terms) < tasks:
        is_told = rng.random() >= rate
        met = rng.random() < (told if is_told else left_out)
        outcome = WEIGHT * met + (1 - WEIGHT) / 2
        terms.append(weighted(outcome, total / count, rate, told=is_told))
        weight = rate * (1 - rate)
        whole, value, off2 = whole + weight, value + weight * terms[-1].value, off2 + (outcome - total / count) ** 2
        total, count = total + outcome, count + 1
        _, doubt = posterior(value / whole, (off2 + 0.5) / (len(terms) + 2) / whole, 0.0, SPREAD**2)
        rate = max(least, min(MOST_LEFT_OUT, doubt))
        if len(terms) % LOOK == 0 and (side := side_of(terms)):
            return side, len(terms)
    return 0, tasks
