"""A prompt that no server answers: the same answer and the same record, without an event loop."""

import asyncio
import importlib.util
import json
import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hooked import hooked
from laid_bank import BY_TABLE, laid

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import CreditSettings, Settings, StorageSettings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hooks.alone import at_once
from swarm_memory.server.hooks.events import HookEvent, handle_hook
from swarm_memory.server.hooks.settings import DEFAULTS, default_settings
from swarm_memory.server.storage import hook_store
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.wiring import open_at_once, open_toolbox, place_of
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox

PROMPTS = (
    "The checkout tests fail with a SettingsError, please mend them",
    "no, that is wrong: the checkout tests still fail with a SettingsError",
    "translate the landing page into French and keep its layout",
    "Run the checkout tests of the shop with a fresh database",
)
TAUGHT = {
    "Mend a SettingsError of the checkout tests": "Copy the example.",
    "Run the checkout tests with a fresh database": "1. Drop the test database.\n2. Run the checkout tests.",
    "Do not run the checkout tests with a fresh database": "1. Keep the test database.\n2. Run the checkout tests.",
}


def settings_with(credit: CreditSettings) -> Settings:
    return Settings(embedding=BY_TABLE, storage=StorageSettings(project="shop"), credit=credit)


async def filled(folder: Path) -> Path:
    """Return a bank that learned something, closed."""
    settings = settings_with(CreditSettings())
    place = place_of(folder, settings)
    laid(place.database)
    toolbox = await open_toolbox(place, settings)
    drafts = [MemoryDraft(title=title, content=content) for title, content in TAUGHT.items()]
    verdict = Verdict(label="Success", confidence=0.9, judge="agent")
    await learn(toolbox, Trajectory(task_id="t0", task="mend it"), agent_verdict=verdict, agent_drafts=drafts)
    await toolbox.store.close()
    return place.database


def event_of(prompt: str) -> dict[str, Any]:
    told = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "transcript_path": "/home/dev/s1.jsonl"}
    return {**told, "prompt": prompt}


def answered_alone(folder: Path, settings: Settings, prompt: str) -> dict[str, Any]:
    """Answer a prompt as the hook command does that finds no server."""
    toolbox = open_at_once(place_of(folder, settings), settings)

    async def opened() -> Toolbox:
        return toolbox

    try:
        return at_once(handle_hook(opened, HookEvent.model_validate(event_of(prompt)), "hook"))
    finally:
        at_once(toolbox.store.close())


def recorded(database: Path) -> list[Any]:
    """Return what prompts leave in a bank, without times and the ids of retrievals and jobs."""

    def plain(data: str) -> Any:
        """A memory is a moment older at the second bank."""
        found = json.loads(data)
        found["scores"] = {memory: round(score, 4) for memory, score in found.get("scores", {}).items()}
        return {name: told for name, told in found.items() if name not in ("latency_ms", "retrieval_id")}

    bank = sqlite3.connect(database)
    events = bank.execute("SELECT type, subject_id, data FROM events ORDER BY type, seq").fetchall()
    found: list[Any] = [(kind, subject if subject[:3] != "rt_" else "", plain(data)) for kind, subject, data in events]
    for query in (
        "SELECT session_id, task_id, task, task_number, transcript_path FROM host_sessions",
        "SELECT kind, key, payload, status FROM jobs ORDER BY key",
        "SELECT id, usage_count FROM patterns ORDER BY id",
        "SELECT metric, count(*) FROM performance_metrics GROUP BY metric",
    ):
        found += bank.execute(query).fetchall()
    bank.close()
    return found


@pytest.mark.parametrize("credit", [{"dropout": 0.0}, {"dropout": 0.5}, {"holdout_rate": 1.0}])
async def test_a_hook_alone_answers_and_records_as_who_holds_the_bank_open(
    tmp_path: Path, credit: dict[str, float]
) -> None:
    settings, folder, other = settings_with(CreditSettings.model_validate(credit)), tmp_path / "a", tmp_path / "b"
    database = await filled(folder)
    shutil.copytree(folder, other)
    copied = other / database.relative_to(folder)
    registry.forget(copied)
    registry.begin(copied)
    toolbox = await open_toolbox(place_of(folder, settings), settings)
    told = [await hooked(toolbox, event_of(prompt)) for prompt in PROMPTS]
    await toolbox.store.close()
    assert [answered_alone(other, settings, prompt) for prompt in PROMPTS] == told
    assert any(told) is ("holdout_rate" not in credit)
    assert recorded(copied) == recorded(database)


async def test_a_busy_bank_costs_a_prompt_its_record_and_not_its_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hook_store, "WRITES_WAIT_S", 0.05)
    database, settings = await filled(tmp_path), settings_with(CreditSettings(dropout=0.0))
    with caplog.at_level(logging.WARNING), writer_lock(database, 1.0):
        assert "Copy the example" in str(answered_alone(tmp_path, settings, PROMPTS[0]))
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "a retrieval was not recorded",
        "a prompt's task was not noted",
    ]


def test_what_waits_for_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="there is none"):
        at_once(asyncio.sleep(0))


def test_the_defaults_that_a_prompt_reads_are_those_of_the_settings(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(__file__).parents[2] / "scripts" / "write_settings.py"
    spec = importlib.util.spec_from_file_location("write_settings", script)
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    assert DEFAULTS.read_text("utf-8") == written.as_json(), "run scripts/write_settings.py"
    for name in [name for name in os.environ if name.startswith("SWARM_MEMORY_")]:
        monkeypatch.delenv(name)
    found = default_settings(tmp_path)
    assert found is not None
    assert found.retrieve.k == Settings().retrieve.k
    monkeypatch.setenv("SWARM_MEMORY_RETRIEVE__K", "4")
    assert default_settings(tmp_path) is None
