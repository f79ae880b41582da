"""Simulated power cuts: what processes write is recorded and turned into disks as a cut at any moment leaves them.

The same on disks that lie shows what the simulation can detect.
"""

import asyncio
import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import FULL

from tests.faults.power import read_steps
from tests.faults.power_survey import BANK, OLD_BANK, Recording, changes_of_names, cuts, lay, survey
from tests.faults.rig import built, environment

HERE = Path(__file__).parent
CUTS = 300 if FULL else 12

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs Linux and a C compiler"),
]


def recorded(folder: Path, role: str, *arguments: object, begin: dict[str, bytes] | None = None) -> Recording:
    """Let the processes of a role (see `power_worker.py`) work in a folder; return what they did.

    Replaying the record must give what they left, to the byte: nothing that they wrote was missed.
    """
    root, log = folder / "project", folder / "log"
    lay(root, begin or {})
    shim = built(HERE / "recording_disk.c", folder / "recording.so", "-ldl", "-lpthread")
    command = [sys.executable, str(HERE / "power_worker.py"), role, str(root / BANK), *map(str, arguments)]
    variables = environment(LD_PRELOAD=str(shim), RECORD_FOLDER=str(root), RECORD_LOG=str(log))
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    recording = Recording(root, begin or {}, read_steps(log))
    disk = recording.disk()
    for step in recording.steps:
        disk.do(step)
    left = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert disk.seen_files() == left
    return recording


async def test_a_power_cut_loses_nothing_acknowledged_and_a_disk_that_lies_does(tmp_path: Path) -> None:
    processes, each = (4, 120) if FULL else (2, 24)
    recording = await asyncio.to_thread(recorded, tmp_path, "writers", processes, each)
    found = await survey(recording, tmp_path / "disks", cuts(recording.steps, CUTS, seed=1), seed=1)
    few = cuts(recording.steps, CUTS // 4, seed=2)
    lied = await survey(recording, tmp_path / "lying", few, seed=2, lies=True)
    assert not found.faults, found.faults[:5]
    assert found.acknowledged > processes * each // 2
    assert lied.having("lost")
    if FULL:
        assert found.in_checkpoint
        assert lied.having("damaged")


async def test_a_power_cut_finds_migration_backup_forgetting_and_restoring_done_or_not(tmp_path: Path) -> None:
    begin = {BANK: gzip.decompress(OLD_BANK.read_bytes())}
    recording = await asyncio.to_thread(recorded, tmp_path, "upkeep", 2 if FULL else 1, begin=begin)
    moments = [*cuts(recording.steps, CUTS, seed=3), *(changes_of_names(recording.steps) * 4 if FULL else ())]
    found = await survey(recording, tmp_path / "disks", moments, seed=3)
    assert not found.faults, found.faults[:5]
    assert found.acknowledged


@pytest.mark.skipif(not FULL, reason="make faults runs it: each bank changes its journal, which takes long")
async def test_a_power_cut_loses_nothing_from_a_rollback_journal(tmp_path: Path) -> None:
    recording = await asyncio.to_thread(recorded, tmp_path, "with_journal", 2, 60)
    found = await survey(recording, tmp_path / "disks", cuts(recording.steps, CUTS, seed=4), seed=4)
    assert not found.faults, found.faults[:5]
    assert found.acknowledged
