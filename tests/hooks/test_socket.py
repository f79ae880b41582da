"""A hook that calls a running server, as real processes: the same answer and record, and never a wait for a server."""

import json
import signal
import socket
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from forked import CLI, Forked
from hook_project import NOTE, TASK, HookProject, wait_until
from patience import STATIC

from swarm_memory.server.hooks.client import READY, head, short_socket_path, socket_prefix
from swarm_memory.server.missed_hooks import missed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")


def record_of(project: HookProject, session: str) -> dict[str, Any]:
    """Return the record of a session's only retrieval, without what always differs: names, times and confidence."""
    (said,) = project.retrievals(session)
    query = "SELECT data FROM events WHERE type = 'task.injected' AND subject_id = ?"
    ((data,),) = project.rows(query, f"{session}:1")
    given = json.loads(data)
    assert given["via"] == said["via"]
    assert given["ids"] == list(said["scores"])
    assert said["task_id"] == f"{session}:1"
    return {name: said[name] for name in ("via", "query", "session_id")} | {"ids": given["ids"]}


def test_a_server_answers_and_after_its_end_the_command_does_the_same_by_itself(learned: HookProject) -> None:
    with learned.serving() as server:
        by_server = learned.prompt(session="one", patient=True)
        said = record_of(learned, "one")
        assert (said["via"], missed(learned.root)) == ("server", [])
        assert server.process.stdin is not None
        server.process.stdin.close()
        server.process.wait()
    assert learned.sockets() == []
    by_itself = learned.prompt(session="two")
    assert NOTE in by_server
    assert by_itself == by_server
    assert record_of(learned, "two") == said | {"via": "hook", "session_id": "two"}
    query = "SELECT session_id, transcript_path, task_id, task, task_number FROM host_sessions ORDER BY session_id"
    one, two = learned.rows(query)
    assert (one[0], one[2], two[0], two[2]) == ("one", "one:1", "two", "two:1")
    assert (one[1], *one[3:]) == (two[1], *two[3:])


def test_a_server_that_starts_removes_the_sockets_of_killed_ones_in_any_project_and_of_no_living_one(
    learned: HookProject, tmp_path: Path
) -> None:
    other = HookProject.made(tmp_path / "other", learned.home)
    with learned.serving() as living:
        with other.serving() as server:
            server.process.kill()
            server.process.wait()
            (dead,) = other.sockets()
        (of_living,) = learned.sockets()
        with other.serving():
            assert not dead.exists()
            assert of_living.exists()
            assert living.process.poll() is None
            assert learned.prompt(patient=True) != ""
            assert record_of(learned, "s1")["via"] == "server"


def test_the_socket_of_a_killed_server_is_removed_and_the_command_does_the_work(learned: HookProject) -> None:
    with learned.serving() as server:
        server.process.kill()
        server.process.wait()
        (dead,) = learned.sockets()
    assert NOTE in learned.prompt()
    assert record_of(learned, "s1")["via"] == "hook"
    assert not dead.exists()


def test_a_stopped_server_holds_nothing_up_and_the_work_is_done_once(learned: HookProject) -> None:
    with learned.serving() as server:
        server.process.send_signal(signal.SIGSTOP)
        try:
            assert NOTE in learned.prompt()
            assert record_of(learned, "s1")["via"] == "hook"
            assert learned.sockets() != []
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert NOTE in learned.prompt(session="later", patient=True)
        assert record_of(learned, "later")["via"] == "server", "it has gone through what waited before"
    assert record_of(learned, "s1")["via"] == "hook"
    assert missed(learned.root) == []


def test_a_server_of_another_project_does_not_answer_though_its_name_says_so(
    learned: HookProject, tmp_path: Path
) -> None:
    other = HookProject.made(tmp_path / "other", learned.home)
    with other.serving():
        (theirs,) = other.sockets()
        ours = theirs.with_name(f"{socket_prefix(learned.root)}{theirs.name.partition('-')[2]}")
        ours.symlink_to(theirs)
        assert learned.sockets() == [ours]
        assert NOTE in learned.prompt(patient=True)
        assert record_of(learned, "s1")["via"] == "hook"
    assert not other.database.exists()
    ours.unlink()


def test_a_server_with_other_settings_of_its_environment_does_not_answer_for_a_command(learned: HookProject) -> None:
    with learned.serving():
        learned.extra["SWARM_MEMORY_STORAGE__PROJECT"] = "another"
        assert learned.prompt(patient=True) == ""
        learned.extra.clear()
        query = "SELECT scopes.project FROM host_sessions JOIN scopes ON scopes.id = scope_id"
        assert learned.rows(query) == [("another",)], "the command did it itself, as it was said"
        assert NOTE in learned.prompt(session="s2", patient=True)
        assert record_of(learned, "s2")["via"] == "server"
    learned.extra["SWARM_MEMORY_STORAGE__PROJECT"] = "another"
    with learned.serving():
        learned.extra.clear()
        assert NOTE in learned.prompt(session="s3", patient=True)
        assert record_of(learned, "s3")["via"] == "hook", "the command lacks what the server has"


@pytest.mark.parametrize("users", [True, False])
def test_a_server_whose_settings_were_changed_since_it_began_does_not_answer(
    learned: HookProject, *, users: bool
) -> None:
    with learned.serving():
        assert NOTE in learned.prompt(session="before", patient=True)
        learned.configure("hooks: {inject: false}\n", users=users)
        assert learned.prompt(session="after", patient=True) == "", "the command has read what is written now"
        assert record_of(learned, "before")["via"] == "server"
        learned.configure("retrieve: {k: 1}\n", users=users)
        assert NOTE in learned.prompt(session="again", patient=True)
        assert record_of(learned, "again")["via"] == "hook"


def test_a_prompt_that_a_server_answers_waits_for_no_import_that_takes_longer(learned: HookProject) -> None:
    code = "import sys\nfrom swarm_memory.server.hooks import client, main\nclient.READY_S = 60.0\n"
    code += "main.os._exit = lambda code: (print(*sys.modules, file=sys.stderr), sys.exit(code))\nmain.main(['prompt'])"
    said = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK)
    with learned.serving():
        asked = learned.start("-c", code, given=said)
        assert NOTE in json.loads(asked.stdout)["hookSpecificOutput"]["additionalContext"]
        assert {"pydantic", "asyncio", "anyio", "numpy", "yaml"}.isdisjoint(asked.stderr.split())
        assert record_of(learned, "s1")["via"] == "server"
        assert learned.cli("pause")
        assert learned.start("-c", code, given=said).stdout == ""
        assert missed(learned.root) == []
        learned.cli("pause", "--end")
        of_another = json.dumps(json.loads(said) | {"timestamp": 1, "session_id": "s2"})
        assert learned.start("-c", code, given=of_another).stdout == ""
        assert learned.rows("SELECT session_id FROM host_sessions") == [("s1",)]


def test_the_socket_is_private_and_a_folder_of_sockets_that_is_open_to_others_is_not_used(learned: HookProject) -> None:
    with learned.serving():
        (path,) = learned.sockets()
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        for mode in (0o755, 0o720, 0o701, 0o700):
            path.parent.chmod(mode)
            assert NOTE in learned.prompt(session=f"{mode:o}", patient=True)
            assert record_of(learned, f"{mode:o}")["via"] == ("server" if mode == 0o700 else "hook")


RUBBISH = (
    *(b"", b"\n", b"7\n", b"7 x\n", b"-1 7\n", b"1 2 3\n", b"1 1000000000\n", b"0 2\n[]", b"2 0\n7\n", b"\xff\xfe\n"),
    *(b"GET / HTTP/1.1\r\n\r\n", b"x" * 3_000_000, b"1" * 10_000 + b"\n"),
)


def framed(root: Path, event: bytes, session: str = "") -> bytes:
    """Return a request from this project, with the settings of its server."""
    named = head(root, session, "claude UserPromptSubmit 0")[:4]
    fields = b"\0".join([*named, *(f"{name}={value}".encode() for name, value in STATIC.items())])
    return b"%d %d\n%b%b" % (len(fields), len(event), fields, event)


def test_a_server_goes_on_answering_whatever_is_sent_to_its_socket(learned: HookProject) -> None:
    with learned.serving() as server:
        (path,) = learned.sockets()
        events: tuple[Any, ...] = (
            [],
            7,
            {},
            {"hook_event_name": ["x"]},
            {"hook_event_name": "UserPromptSubmit", "session_id": {}, "prompt": 3},
            {"session_id": "\ud800", "hook_event_name": "UserPromptSubmit", "prompt": "\ud800 mend it all"},
        )
        said = [framed(learned.root, json.dumps(event).encode()) for event in events]
        said += [framed(learned.root, each) for each in (b"{]", b"[" * 100_000)]
        said += [framed(learned.root, b"", "x" * 500_000)]
        for each in (*RUBBISH, *said):
            for follow in (b"go\n", b"no\n", b""):
                send(path, each, follow)
            assert server.call("memory_status").get("isError") is not True
            assert path.exists(), f"the server listens no more after {each[:80]}"
        assert NOTE in learned.prompt(session="s9", patient=True)
        assert record_of(learned, "s9")["via"] == "server"


def send(path: Path, text: bytes, follow: bytes) -> None:
    """Send `text` to a socket, then `follow` if it answers that it is ready; then disconnect."""
    with socket.socket(socket.AF_UNIX) as channel, short_socket_path(path) as address:
        channel.settimeout(30)
        channel.connect(address)
        try:
            channel.sendall(text)
            channel.shutdown(socket.SHUT_WR) if not follow else None
            if text and channel.recv(100) == READY:
                channel.sendall(follow)
                channel.recv(10_000)
        except (BrokenPipeError, ConnectionResetError):
            return


def test_a_turn_and_a_session_that_end_wake_the_server_and_it_learns(learned: HookProject) -> None:
    learned.extra["SWARM_MEMORY_HOOKS__SETTLE_S"] = "0"
    with learned.serving() as server:
        server.call("memory_status")
        assert NOTE in learned.prompt(patient=True)
        wait_until(lambda: bool(learned.rows("SELECT 1 FROM host_sessions")))
        assert learned.printed("stop") == ""
        wait_until(lambda: learned.rows("SELECT key, status FROM jobs WHERE kind = 'learn'") == [("s1:1", "completed")])


def test_a_server_with_settings_of_its_command_line_leaves_hooks_to_themselves(learned: HookProject) -> None:
    """Other hooks of the same session do not know these settings, and would work on another bank."""
    with learned.serving("--set", "retrieve.k=1", listens=False):
        assert learned.sockets() == []


@pytest.mark.skipif(sys.platform != "linux", reason="what a process has loaded as Linux tells it")
def test_a_server_makes_itself_ready_for_the_first_prompt_of_its_session(learned: HookProject) -> None:
    learned.extra["SWARM_MEMORY_EMBEDDING__PROVIDER"] = "minilm"
    with Forked([*CLI, "serve"], cwd=learned.root, env=learned.environment, stdin=PIPE, stdout=PIPE) as server:
        try:
            wait_until(lambda: "onnxruntime" in Path(f"/proc/{server.pid}/maps").read_text())
        finally:
            server.kill()
