"""Checks that a bank is as it must be after a power cut: what was acknowledged by then, and what the store finds."""

import json
import random
import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import StorageError
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.sqlite import SqliteStore
from tests.faults.power import Disk, Step
from tests.faults.rig import HERE, made_item, opened, present_in, with_vectors

BANK = ".swarm/memory.db"
SAID = "acknowledged"
"""The file in which the recorded processes write what was done."""

OLD_BANK = Path(__file__).with_name("fixtures") / "bank_v1.db.gz"
_SCOPES = (HERE, Scope(project="shop"))
_NOT_MADE_WHOLE = """
SELECT (SELECT count(*) FROM patterns WHERE id NOT IN
          (SELECT subject_id FROM events WHERE type = 'reasoning_memory.created')),
       (SELECT group_concat(DISTINCT subject_id) FROM events WHERE type = 'reasoning_memory.created'
          AND subject_id NOT IN (SELECT id FROM patterns))
"""
"""Memories without the event of their creation, and such events without the memory."""

Kind = Literal["lost", "damaged", "back"]
"""Acknowledged but missing; incomplete, not opened or not writable; removed but there again."""


class Fault(NamedTuple):
    """One thing that is wrong with a disk."""

    kind: Kind
    what: str


class Recording(NamedTuple):
    """What processes did to a folder."""

    root: Path
    begin: dict[str, bytes]
    """The files that were in the folder before, by path."""
    steps: list[Step]

    def disk(self, *, lies: bool = False) -> Disk:
        """Return the disk as it was before the first step."""
        return Disk(self.root, self.begin, lies=lies)

    def account(self, said: bytes) -> "Account":
        """Return what was acknowledged once `said` was written."""
        known = json.loads(OLD_BANK.with_name("bank_v1.json").read_bytes())["memories"] if self.begin else ()
        account = Account(there=set(known))
        for line in said.decode().splitlines():
            account.read(line.split())
        return account


@dataclass(slots=True)
class Account:
    """What was acknowledged up to a moment. What has begun but not ended may or may not be done."""

    there: set[str] = field(default_factory=set[str])
    """Memories that must be there."""
    instead: set[str] | None = None
    """The memories that may be there instead, because a restore has begun; None if none has."""
    gone: set[str] = field(default_factory=set[str])
    """Memories that must not be there."""
    forgotten: set[str] = field(default_factory=set[str])
    """Those of `gone` of which no trace may be left."""
    touched: set[str] = field(default_factory=set[str])
    """Memories whose removal has begun."""
    marks: dict[str, str] = field(default_factory=dict[str, str])
    """A word that is only in one memory, by the memory's id."""
    copies: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Backups that must be there, by name, with their memories."""

    def read(self, words: list[str]) -> None:
        """Apply one line that a process wrote."""
        match words:
            case ["added", memory, mark]:
                self.there.add(memory)
                self.marks[memory] = mark
            case ["forgetting", *memories]:
                self.there -= set(memories)
                self.touched |= set(memories)
                self.copies = {name: held for name, held in self.copies.items() if held.isdisjoint(memories)}
            case ["forgot", *memories]:
                self.gone |= set(memories)
                self.forgotten |= set(memories)
            case ["copied", name]:
                self.copies[name] = set(self.there)
            case ["restoring", name]:
                self.instead = self.copies[name]
                self.gone -= self.copies[name]
                self.touched |= self.marks.keys() - self.copies[name]
            case ["restored", name]:
                self.there, self.instead = set(self.copies[name]), None
                self.gone |= self.marks.keys() - self.copies[name]
            case _:
                assert words == ["opened"], words


@dataclass(slots=True)
class Survey:
    """What was found on many disks."""

    disks: int = 0
    in_checkpoint: int = 0
    """How many of them lost power while the database file itself had unflushed writes."""
    acknowledged: int = 0
    """How many memories had been acknowledged at the last cut."""
    faults: list[list[Fault]] = field(default_factory=list[list[Fault]])
    """The faults of each disk that is not as it must be."""

    def having(self, kind: Kind) -> int:
        """Return how many disks have a fault of a kind."""
        return sum(any(fault.kind == kind for fault in faults) for faults in self.faults)


def cuts(steps: list[Step], count: int, seed: int) -> list[int]:
    """Return moments: half of them anywhere, half next to a step that is more than a write."""
    chance = random.Random(seed)
    rare = [number for number, step in enumerate(steps) if step.kind in "tfrlum"]
    beside = [chance.choice(rare) + chance.randrange(2) for _ in range(count // 2)]
    return [*beside, *(chance.randrange(len(steps) + 1) for _ in range(count - len(beside)))]


def changes_of_names(steps: list[Step]) -> list[int]:
    """Return the moments after a file got or lost a name: they are few, and each may leave a different set of files."""
    return [number + 1 for number, step in enumerate(steps) if step.kind in "rlum"]


async def survey(recording: Recording, folder: Path, moments: list[int], *, seed: int, lies: bool = False) -> Survey:
    """Cut the power at each moment, losing all unflushed data and then only some of it; check each disk."""
    chance, disk, done, seen = random.Random(seed), recording.disk(lies=lies), 0, Survey()
    for cut in sorted(moments):
        for step in recording.steps[done:cut]:
            disk.do(step)
        done = cut
        account = recording.account(disk.seen(SAID))
        seen.acknowledged = len(account.marks)
        for files in (disk.dropped(), disk.torn(chance)):
            files.pop(SAID, None)
            files.pop(f"{BANK}-shm", None)
            if BANK in files and chance.random() < 0.5:
                files[f"{BANK}-shm"] = chance.randbytes(32768)  # shared memory backed by a file: it may hold anything
            root = folder / f"disk{seen.disks}"
            lay(root, files)
            if faults := [fault async for fault in faults_of(root, files, account)]:
                seen.faults.append(faults)
            seen.disks += 1
            seen.in_checkpoint += disk.is_written(BANK)
            shutil.rmtree(root)
    return seen


def lay(root: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


async def faults_of(root: Path, files: dict[str, bytes], account: Account) -> AsyncGenerator[Fault]:
    """Yield everything that is wrong with a disk once the power is back."""
    for memory in account.forgotten:
        if held := [name for name, content in files.items() if account.marks[memory].encode() in content]:
            yield Fault("back", f"a trace of what was forgotten in {held}")
    for name, memories in account.copies.items():
        if fault := _fault_of_copy(root / ".swarm" / "backups" / name, memories):
            yield fault
    try:
        if (root / BANK).exists():
            registry.forget(root / BANK)
            registry.begin(root / BANK)
        async with opened(root / BANK) as store:
            async for fault in _faults_of_bank(store, account):
                yield fault
    except StorageError as error:
        yield Fault("damaged", f"{type(error).__name__}: {error}")


async def _faults_of_bank(store: SqliteStore, account: Account) -> AsyncGenerator[Fault]:
    found = await present_in(store, sorted(account.there | account.gone | (account.instead or set())), _SCOPES)
    if (lost := account.there - found) and (account.instead is None or account.instead - found):
        yield Fault("lost", f"{len(lost)} of {len(account.there)} memories")
    if back := account.gone & found:
        yield Fault("back", f"{len(back)} of {len(account.gone)} memories")
    (memory,) = await with_vectors([made_item("Written when the power was back")])
    if await store.add_memories([memory], StaticEmbedder().name) != [memory.item.id]:
        yield Fault("damaged", "nothing can be written")
    inside = await store.inspect()
    if not inside.sound:
        yield Fault("damaged", str(inside))
    without_event, without_row = await store.read(lambda connection: connection.execute(_NOT_MADE_WHOLE).fetchone())
    half_made = set((without_row or "").split(",")) - account.touched - {""}
    if without_event or half_made:
        yield Fault("damaged", f"{without_event} memories without their event, {len(half_made)} events without theirs")


def _fault_of_copy(copy: Path, memories: Iterable[str]) -> Fault | None:
    if not copy.exists():
        return Fault("lost", f"the backup {copy.name}")
    with closing(choose().module.connect(f"{copy.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            return Fault("damaged", f"the backup {copy.name}")
        held = {row[0] for row in connection.execute("SELECT id FROM patterns")}
    return None if held >= set(memories) else Fault("lost", f"memories of the backup {copy.name}")
