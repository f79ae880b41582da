"""Which transcripts a hook may name, how faults are written down, and the demo session that ships."""

import json
import re
from pathlib import Path

import pytest

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.hosts.host import all_folders
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.location import MAX_LOG_BYTES, log_line
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence


@pytest.fixture
def transcript(home: Path) -> Path:
    path = home / ".claude" / "projects" / "-home-dev-shop" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n", encoding="utf-8")
    return path


def test_a_transcript_of_the_host_is_taken_from_where_its_configuration_says(
    transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked_transcript(str(transcript), all_folders()) == str(transcript.resolve())
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert HOST.folders() == (str(tmp_path / "projects"),)


def test_a_transcript_in_the_project_is_taken_only_where_the_project_is_given(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch()
    assert checked_transcript(str(path), all_folders(tmp_path)) == str(path.resolve())
    with pytest.raises(InputError, match="must lie in"):
        checked_transcript(str(path), all_folders())


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "absolute"),
        ("s1.jsonl", "absolute"),
        ("/a\0b.jsonl", "absolute"),
        ("{folder}/s1.txt", "must end in .jsonl"),
        ("{folder}/none.jsonl", "not a file"),
        ("{folder}/folder.jsonl", "not a file"),
        ("{folder}/" + "x" * 5000 + ".jsonl", "not a file"),
        ("/etc/passwd", "must end in .jsonl"),
    ],
)
def test_what_is_no_transcript_is_refused_with_the_reason(transcript: Path, name: str, complaint: str) -> None:
    (transcript.parent / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match=complaint):
        checked_transcript(name.replace("{folder}", str(transcript.parent)), all_folders())


def test_the_log_is_private_and_each_fault_one_line(tmp_path: Path) -> None:
    log_line(tmp_path, "first\nfault")
    log_line(tmp_path, "second \ud800 fault")
    log = tmp_path / "log"
    assert [line.partition(" hooks ")[2] for line in log.read_text(encoding="utf-8").splitlines()] == [
        "first fault",
        "second ? fault",
    ]
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_has_grown_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * MAX_LOG_BYTES)
    log_line(tmp_path, "one more")
    assert not (tmp_path / "log").exists()
    assert (tmp_path / "log.1").read_bytes().endswith(b"one more\n")


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="log"):
        log_line(tmp_path, "fault")
    assert not (tmp_path / "elsewhere").exists()


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
