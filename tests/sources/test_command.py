"""`swarm-memory sources`, as a person would use it in a shell."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.server.cli.main import main


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
    assert (hit["passage"]["path"], hit["location"]) == ("guide.md", ".")
    assert "add" in sources("search", "sum of numbers", "--kind", "tool")
    assert [(each["kind"], each["location"]) for each in sources("list", "--json")] == [
        ("document", "."),
        ("tool", "tools.json"),
    ]
    assert sources("remove", ".", "--kind", "document", "--json") == {"passages": 1}
    assert sources("search", "retry limit", "--kind", "document", "--json")["hits"] == []


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
    assert run(monkeypatch, capsys, "remove", "none", "--kind", "code")[0] == 2


def test_a_file_of_another_kind_is_refused_and_leaves_no_source(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(monkeypatch, capsys, "index", "guide.md", "--kind", "api")
    assert code == 1
    assert "Nothing of guide.md is indexed: 1 found, none could be read." in out
    assert run(monkeypatch, capsys, "list", "--json")[1] == []
