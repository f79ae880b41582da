"""Which transcripts a hook may name."""

from pathlib import Path

import pytest

from swarm_memory.schema.errors import InputError
from swarm_memory.server.host_transcript import checked_transcript, host_folder


@pytest.fixture
def transcript(home: Path) -> Path:
    path = home / ".claude" / "projects" / "-home-dev-shop" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n", encoding="utf-8")
    return path


def test_a_transcript_of_the_host_is_taken(transcript: Path) -> None:
    assert checked_transcript(str(transcript)) == transcript.resolve()


def test_the_hosts_folder_follows_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert host_folder() == tmp_path / "projects"


def test_a_transcript_in_the_project_is_taken_only_where_the_project_is_given(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.touch()
    assert checked_transcript(str(path), tmp_path) == path.resolve()
    with pytest.raises(InputError, match="must lie in"):
        checked_transcript(str(path))


def test_the_way_through_a_parent_folder_leads_nowhere(transcript: Path, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").touch()
    sneaky = f"{transcript.parent}/{'../' * 20}{tmp_path.relative_to('/')}/other.jsonl"
    with pytest.raises(InputError, match="must lie in"):
        checked_transcript(sneaky)


def test_a_link_that_leads_out_is_refused(transcript: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").touch()
    link = transcript.with_name("link.jsonl")
    link.symlink_to(tmp_path / "secret.jsonl")
    with pytest.raises(InputError, match="must lie in"):
        checked_transcript(str(link))


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
        checked_transcript(name.replace("{folder}", str(transcript.parent)))
