"""The shipped demo session: small, of nobody's machine, and with something to learn in it."""

import json
import re
from pathlib import Path

from swarm_memory.schema.settings import Settings
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence

SESSION = Path(__file__).parents[2] / "server" / "cli" / "demo" / "session.jsonl"


def test_it_is_small_and_holds_lines_of_the_person_and_the_agent_only() -> None:
    lines = [json.loads(line) for line in SESSION.read_text(encoding="utf-8").splitlines()]
    assert {line["type"] for line in lines} == {"user", "assistant"}
    assert {line["cwd"] for line in lines} == {"/home/dev/shop"}
    assert SESSION.stat().st_size < 60_000


def test_it_names_no_folder_but_the_shown_one() -> None:
    text = SESSION.read_text(encoding="utf-8")
    assert re.findall(r"(?<![\w./<])/(?!home/dev/shop)[a-z]+/[^\s\"]*", text) == []


def test_it_is_one_task_that_was_met_and_teaches_how() -> None:
    (trajectory,) = read_trajectories(SESSION)
    verdict = judge_by_evidence(trajectory, Settings())
    assert verdict.label == "Success"
    (draft,) = distill_by_extraction(trajectory, verdict, Settings()).drafts
    assert "cp config/test.example.toml config/test.toml" in draft.content
