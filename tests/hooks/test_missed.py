"""What hooks miss and what goes wrong is logged outside projects; the transcripts they may name; the demo."""

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hook_project import DEMO, SAID, TASK, HookProject
from made_files import written
from patience import HANG_S, is_in_time

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hooks.client import READY, run_folder, short_socket_path, socket_prefix
from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.hosts.host import transcript_folders
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import MAX_LOG_BYTES, log_line, state_folder
from swarm_memory.server.missed_hooks import KEPT_DAYS, MAX_BYTES, missed, note_missed

HURRIED = """
from swarm_memory.server.hooks import main
ask = main.ask
main.VERBS["prompt"] = ("UserPromptSubmit", {limit}, True)
main.ask = lambda root, event, _, **given: ask(root, event, {answer}, **given)
main.main(["prompt"])
"""
"""The prompt hook with other time limits."""


@contextmanager
def server_that_only_says_ready(root: Path) -> Generator[None]:
    """Open a socket of the project, behind which a server accepts the work but does not answer."""
    folder = Path(run_folder())
    folder.mkdir(mode=0o700, parents=True)
    with socket.socket(socket.AF_UNIX) as listener:
        with short_socket_path(folder / f"{socket_prefix(root)}1-{os.getpid()}.sock") as address:
            listener.bind(address)
        listener.listen()
        over = threading.Event()

        def serve() -> None:
            channel, _ = listener.accept()
            with channel:
                channel.recv(100_000)
                channel.sendall(READY)
                over.wait(HANG_S)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("limit", "answer", "reason"), [(0.5, 30, "no answer within 0.5 s"), (30, 0.4, "did not answer within 0.4 s")]
)
def test_a_server_that_took_a_prompt_and_does_not_answer_costs_only_the_time_that_there_is(
    learned: HookProject, limit: float, answer: float, reason: str
) -> None:
    said = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK)
    with server_that_only_says_ready(learned.root):
        code = "from swarm_memory.server.hooks import client; client.READY_S = 60.0\n"
        done = learned.run("-c", code + HURRIED.format(limit=limit, answer=answer), given=said)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (noted,) = missed(learned.root)
    assert (noted.event, noted.times) == ("UserPromptSubmit", 1)
    assert reason in noted.reason
    assert learned.rows("SELECT 1 FROM host_sessions") == [], "what a server took is not done by another too"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a file that is never read to its end")
def test_a_hook_that_hangs_ends_in_its_time_and_is_counted(learned: HookProject) -> None:
    state_folder().mkdir(parents=True, exist_ok=True)
    os.mkfifo(state_folder() / "paused")
    began = time.monotonic()
    done = learned.run("-m", "swarm_memory.server.hooks", "session-end")
    assert is_in_time(time.monotonic() - began, 2)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (noted,) = missed(learned.root)
    assert (noted.event, noted.reason, noted.times) == ("SessionEnd", "no answer within 1.3 s", 1)
    assert learned.log() == ""
    (state_folder() / "paused").unlink()
    assert SAID in learned.printed("session-start")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a file that is never read to its end")
def test_a_settings_file_that_is_a_pipe_holds_no_hook_up(learned: HookProject) -> None:
    for users in (False, True):
        file = learned.configure("", users=users)
        file.unlink()
        os.mkfifo(file)
    assert SAID in learned.printed("session-start")
    assert missed(learned.root) == []


def test_an_event_that_is_refused_is_counted_with_the_reason(learned: HookProject, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other.jsonl"
    elsewhere.write_text("{}")
    said = learned.event(transcript_path=str(elsewhere))
    for _ in range(3):
        learned.hook("stop", said)
    learned.hook("session-end", learned.event(session_id="../x"))
    first, second = missed(learned.root)
    assert (first.event, first.times, second.event, second.times) == ("Stop", 3, "SessionEnd", 1)
    assert "must be in" in first.reason
    assert "not a session id" in second.reason
    assert time.time() - HANG_S < second.last_at <= time.time()


def test_a_wrong_setting_is_counted_and_shown_in_the_log_of_an_own_bank(learned: HookProject) -> None:
    learned.configure("hooks: {inject: perhaps}\n")
    assert learned.prompt() == ""
    assert "(it is 'perhaps')" in learned.log()
    (noted,) = missed(learned.root)
    assert "(it is 'perhaps')" in noted.reason


def test_each_project_has_its_own_and_the_most_frequent_comes_first(tmp_path: Path) -> None:
    for times, event, reason in ((1, "Stop", "a"), (3, "Stop", "b"), (2, "SessionEnd", "a")):
        for _ in range(times):
            note_missed(tmp_path / "shop", event, reason)
    note_missed(tmp_path / "other", "Stop", "a")
    said = [(each.event, each.reason, each.times) for each in missed(tmp_path / "shop")]
    assert said == [("Stop", "b", 3), ("SessionEnd", "a", 2), ("Stop", "a", 1)]
    assert len(missed(tmp_path / "other")) == 1
    assert missed(tmp_path / "none") == []


def test_the_notes_are_private_short_put_aside_when_large_and_read_whatever_stands_there(tmp_path: Path) -> None:
    note_missed(tmp_path, "Stop", "x" * 10_000)
    file = state_folder() / "missed"
    if sys.platform != "win32":
        assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes()) < 1000
    old = {"at": time.time() - (KEPT_DAYS + 1) * 86_400, "root": str(tmp_path), "event": "Stop", "reason": "old"}
    rubbish = ["{not json", "[]", "7", "", json.dumps({"root": str(tmp_path)}), json.dumps(old | {"at": "now"})]
    with file.open("a", encoding="utf-8") as notes:
        notes.write("\n".join([json.dumps(old), *rubbish, "\ud800\n".encode("utf-8", "replace").decode()]))
    assert [each.times for each in missed(tmp_path)] == [1]
    with file.open("a", encoding="utf-8") as notes:
        notes.write("\n" + " " * MAX_BYTES + "\n")
    note_missed(tmp_path, "Stop", "last")
    assert not file.exists()
    note_missed(tmp_path, "Stop", "first again")
    assert {each.reason for each in missed(tmp_path)} == {"x" * 300, "last", "first again"}


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_link_in_the_place_of_the_notes_is_not_followed(learned: HookProject, tmp_path: Path) -> None:
    state_folder().mkdir(parents=True, exist_ok=True)
    (state_folder() / "missed").symlink_to(tmp_path / "elsewhere")
    done = learned.hook("stop", "no json")
    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def transcript(home: Path) -> Path:
    path = home / ".claude" / "projects" / "-home-dev-shop" / "s1.jsonl"
    written(path, "{}\n")
    return path


def test_a_transcript_is_taken_from_where_the_hosts_configuration_says_and_from_a_project_that_is_given(
    transcript: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checked_transcript(str(transcript), transcript_folders()) == str(transcript.resolve())
    own = tmp_path / "run.jsonl"
    own.touch()
    assert checked_transcript(str(own), transcript_folders(tmp_path)) == str(own.resolve())
    with pytest.raises(InputError, match="must be in"):
        checked_transcript(str(own), transcript_folders())
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    assert HOST.folders() == (str(tmp_path / "projects"),)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("s1.jsonl", "absolute"),
        ("/a\0b.jsonl", "absolute"),
        ("{folder}/s1.txt", "must end in .jsonl"),
        ("{folder}/folder.jsonl", "not a file"),
    ],
)
def test_what_is_no_transcript_is_refused_with_the_reason(transcript: Path, name: str, complaint: str) -> None:
    (transcript.parent / "folder.jsonl").mkdir()
    with pytest.raises(InputError, match=complaint):
        checked_transcript(name.replace("{folder}", str(transcript.parent)), transcript_folders())


def test_the_log_is_private_each_fault_one_line_put_aside_when_it_has_grown_and_no_link(tmp_path: Path) -> None:
    log_line(tmp_path, "hooks", "first\nfault")
    log_line(tmp_path, "hooks", "second \ud800 fault")
    log = tmp_path / "log"
    lines = log.read_text(encoding="utf-8").splitlines()
    assert [line.partition(" hooks ")[2] for line in lines] == ["first fault", "second ? fault"]
    assert log.stat().st_mode & 0o777 == 0o600
    log.write_bytes(b"x" * MAX_LOG_BYTES)
    log_line(tmp_path, "hooks", "one more")
    assert not log.exists()
    assert (tmp_path / "log.1").read_bytes().endswith(b"one more\n")
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="log"):
        log_line(tmp_path, "hooks", "fault")
    assert not (tmp_path / "elsewhere").exists()


def test_the_demo_session_is_small_holds_lines_of_the_person_and_the_agent_only_and_names_no_other_folder() -> None:
    text = DEMO.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert {line["type"] for line in lines} == {"user", "assistant"}
    assert {line["cwd"] for line in lines} == {"/home/dev/shop"}
    assert len(text.encode()) < 60_000
    assert re.findall(r"(?<![\w./<])/(?!home/dev/shop)[a-z]+/[^\s\"]*", text) == []
