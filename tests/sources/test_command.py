"""`swarm-memory sources`, as a person would use it in a shell."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.server.cli.main import main
from tests.sources.github_api import GitHubApi, blob_sha


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a document, a list of functions and a `.mcp.json`, in which the commands run."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "guide.md").write_text("# Guide\n\nThe retry limit stands in settings.toml.\n")
    (folder / "tools.json").write_text(json.dumps([{"name": "add", "description": "Adds two numbers."}]))
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": str(tmp_path / "never")}}}))
    monkeypatch.chdir(folder)
    return folder


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """Run a command; return its exit code, its output (as JSON where it is) and what it said on stderr."""
    monkeypatch.setattr(sys, "argv", ["swarm-memory", "sources", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(out) if "--json" in arguments and out else out, err


def test_what_is_indexed_is_found_listed_and_removed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def sources(*arguments: str) -> Any:
        code, out, err = run(monkeypatch, capsys, *arguments)
        assert code == 0, err
        return out

    assert sources("index", "--kind", "document", "--json")["added"] == 1
    assert sources("index", "tools.json", "--kind", "tool", "--json")["passages"] == 1
    (hit, *_) = sources("search", "where is the retry limit", "--json")["hits"]
    assert (hit["where"].partition(":")[0], hit["source"]) == ("guide.md", ".")
    assert "add" in sources("search", "sum of numbers", "--kind", "tool")
    assert [(each["kind"], each["location"]) for each in sources("list", "--json")] == [
        ("document", "."),
        ("tool", "tools.json"),
    ]
    assert sources("list", "--remove", ".", "--kind", "document", "--json") == {"passages": 1}
    assert sources("search", "retry limit", "--kind", "document", "--json")["hits"] == []


def test_kinds_are_known_by_the_files(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    functions: Any = [
        {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {"a": {}}}}
    ]
    operations = {"/orders": {"get": {"operationId": "listOrders", "summary": "Lists orders"}}}
    (project / "tools.json").write_text(json.dumps(functions))
    (project / "shop.yaml").write_text(json.dumps({"openapi": "3.1.0", "paths": operations}))
    (project / "settings.json").write_text('{"retries": 3}')
    (project / "shop.py").write_text('"""The shop."""\n\n\ndef order() -> None:\n    """Orders."""\n')
    code, out, err = run(monkeypatch, capsys, "index")
    assert (code, err) == (0, "")
    lines = [line for line in out.splitlines() if line.startswith(("kind", "added"))]
    kinds = ("kind: tool", "added: 1", "kind: document", "added: 1", "kind: code", "added: 1", "kind: api", "added: 1")
    assert lines == list(kinds)
    by_file = {"shop.py": "code", "shop.yaml": "api", "tools.json": "tool", "settings.json": "document"}
    for name, kind in by_file.items():
        assert run(monkeypatch, capsys, "index", name, "--json")[1]["kind"] == kind
    assert run(monkeypatch, capsys, "list", "--remove", ".")[0] == 0
    assert {each["location"] for each in run(monkeypatch, capsys, "list", "--json")[1]} == {*by_file}


def test_a_folder_with_nothing_that_is_known_and_a_config_of_servers_say_what_to_do(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "bin").mkdir()
    (project / "bin" / "x.dat").write_bytes(b"\0\1")
    code, _, err = run(monkeypatch, capsys, "index", "bin")
    assert code == 2
    assert "holds no document, code" in err
    code, _, err = run(monkeypatch, capsys, "index", ".mcp.json")
    assert code == 1
    assert "--start-servers" in err


def test_no_server_is_started_without_leave(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(monkeypatch, capsys, "index", "--kind", "tool")
    assert code == 3
    assert "--start-servers" in err
    code, out, _ = run(monkeypatch, capsys, "index", "--kind", "tool", "--start-servers", "--json")
    assert code == 1
    assert out["faults"][0]["group"] == "x"


def test_what_is_not_there_is_one_line_and_an_exit_code(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, capsys, "index", "none", "--kind", "code")[0] == 2
    assert run(monkeypatch, capsys, "index", "none")[0] == 2
    assert run(monkeypatch, capsys, "list", "--remove", "none", "--kind", "code")[0] == 2
    assert run(monkeypatch, capsys, "list", "--remove", "none")[0] == 2


def test_a_file_of_another_kind_is_refused_and_leaves_no_source(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, "index", "guide.md", "--kind", "api")
    assert code == 1
    assert "reason: nothing of guide.md is indexed: 1 found, none could be read" in out
    assert run(monkeypatch, capsys, "list", "--json")[1] == []


@pytest.mark.enable_socket
def test_a_repository_of_github_is_indexed_found_and_removed(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    till = b'def close_day(till):\n    """Count the cash."""\n    return sum(till)\n'
    with GitHubApi({"till.py": till}) as api:
        monkeypatch.setenv("SWARM_MEMORY_SOURCES__GITHUB_URL", api.url)
        monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
        code, done, err = run(monkeypatch, capsys, "index", "--kind", "github", "acme/shop", "--json")
        assert (code, done["location"], done["added"]) == (0, "github:acme/shop", 3), err
        shown = run(monkeypatch, capsys, "search", "count the cash", "--kind", "github")[1]
        link = f"https://github.com/acme/shop/blob/{api.commit}/till.py"
        assert f"url: {link}#L1-L3\n  sha: {blob_sha(till)}" in shown
    assert run(monkeypatch, capsys, "index", "--kind", "github", "shop")[0] == 2
    assert "passages: " in run(monkeypatch, capsys, "list", "--remove", "github:acme/shop")[1]
