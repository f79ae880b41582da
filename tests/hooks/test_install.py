"""What `install` writes into Claude Code's files, and that `uninstall` takes out exactly that."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.claude_settings import (
    SERVER_NAME,
    apply,
    hook_command,
    hook_entries,
    plan_install,
    plan_uninstall,
    server_entry,
)

REPOSITORY = Path(__file__).parents[2]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_project_gets_the_server_the_hooks_and_their_approval(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    assert read(tmp_path / ".mcp.json") == {"mcpServers": {SERVER_NAME: server_entry(sys.executable)}}
    settings = read(tmp_path / ".claude" / "settings.json")
    assert settings == {"hooks": hook_entries(hook_command()), "enabledMcpjsonServers": [SERVER_NAME]}


def test_every_path_that_is_written_is_absolute() -> None:
    assert Path(server_entry(sys.executable)["command"]).is_absolute()
    commands = [entry["hooks"][0].get("command") for (entry,) in hook_entries(hook_command()).values()]
    assert [command for command in commands if command] == [sys.executable, sys.executable]


def test_the_example_settings_are_what_install_writes_with_the_warning_before_tools() -> None:
    example = read(REPOSITORY / "claude_settings.example.json")
    python = "/path/to/.venv/bin/python"
    assert example == {"hooks": hook_entries(hook_command(python), warn=True), "enabledMcpjsonServers": [SERVER_NAME]}


def test_the_warning_before_tools_is_written_only_where_it_is_wanted_and_taken_out_again(tmp_path: Path) -> None:
    settings = tmp_path / ".claude" / "settings.json"
    apply(plan_install("project", tmp_path))
    assert "PreToolUse" not in read(settings)["hooks"]
    apply(plan_install("project", tmp_path, warn=True))
    assert read(settings)["hooks"] == hook_entries(hook_command(), warn=True)
    apply(plan_install("project", tmp_path))
    assert read(settings)["hooks"] == hook_entries(hook_command())


def test_installing_twice_changes_nothing_more(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    assert plan_install("project", tmp_path) == []


def test_what_was_there_is_kept_in_its_order_and_style(tmp_path: Path) -> None:
    before = (
        '{\n    "zeta": 1,\n    "hooks": {\n        "Stop": [{"hooks": [{"type": "command", "command": "say"}]}],\n'
        '        "PreToolUse": []\n    },\n    "alpha": "ü"\n}'
    )
    path = written(tmp_path / ".claude" / "settings.json", before)
    apply(plan_install("project", tmp_path))
    text, settings = path.read_text(encoding="utf-8"), read(path)
    assert list(settings) == ["zeta", "hooks", "alpha", "enabledMcpjsonServers"]
    assert settings["hooks"]["Stop"][0]["hooks"][0]["command"] == "say"
    assert len(settings["hooks"]["Stop"]) == 2
    assert '\n    "alpha": "ü"' in text
    assert not text.endswith("\n")


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "opus", "hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "x"}]}]}},
        {"hooks": {"SessionEnd": []}, "enabledMcpjsonServers": ["other"], "permissions": {"allow": []}},
        {"model": "opus"},
    ],
)
def test_uninstall_gives_back_the_values_that_were_there(tmp_path: Path, settings: dict[str, Any]) -> None:
    servers = {"mcpServers": {"other": {"command": "/bin/other"}}}
    paths = [
        written(tmp_path / ".claude" / "settings.json", json.dumps(settings, indent=2) + "\n"),
        written(tmp_path / ".mcp.json", json.dumps(servers, indent=2) + "\n"),
    ]
    apply(plan_install("project", tmp_path))
    apply(plan_uninstall("project", tmp_path))
    settings.get("hooks", {}).pop("SessionEnd", None)
    if settings.get("hooks") == {}:
        del settings["hooks"]
    assert [read(path) for path in paths] == [settings, servers]
    assert plan_uninstall("project", tmp_path) == []


def test_files_that_held_nothing_else_are_removed(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    apply(plan_uninstall("project", tmp_path))
    assert not (tmp_path / ".mcp.json").exists()
    assert not (tmp_path / ".claude" / "settings.json").exists()


def test_uninstall_changes_nothing_where_nothing_was_installed(tmp_path: Path) -> None:
    written(tmp_path / ".claude" / "settings.json", '{"hooks": {}, "enabledMcpjsonServers": []}')
    written(tmp_path / ".mcp.json", '{"mcpServers": {"swarm-memory": {"command": "/bin/another-program"}}}')
    assert plan_uninstall("project", tmp_path) == []


def test_an_own_entry_of_another_interpreter_is_replaced(tmp_path: Path) -> None:
    old = {"hooks": hook_entries(hook_command("/old/python")), "enabledMcpjsonServers": [SERVER_NAME]}
    path = written(tmp_path / ".claude" / "settings.json", json.dumps(old))
    apply(plan_install("project", tmp_path))
    assert read(path)["hooks"] == hook_entries(hook_command())


def test_another_hook_in_our_group_outlives_us(tmp_path: Path) -> None:
    groups = hook_entries(hook_command())
    groups["Stop"][0]["hooks"].append({"type": "command", "command": "mine"})
    path = written(tmp_path / ".claude" / "settings.json", json.dumps({"hooks": groups}))
    apply(plan_uninstall("project", tmp_path))
    assert read(path) == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}


def test_a_server_of_another_program_with_our_name_is_refused(tmp_path: Path) -> None:
    written(tmp_path / ".mcp.json", '{"mcpServers": {"swarm-memory": {"command": "/bin/another-program"}}}')
    with pytest.raises(ConfigError, match="another server called"):
        plan_install("project", tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{,}", "not valid JSON"),
        ('// a comment\n{"a": 1}', "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"hooks": []}', "hooks must be an object"),
        ('{"hooks": {"Stop": {}}}', "Stop must be a list"),
        ('{"enabledMcpjsonServers": true}', "must be a list"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_and_left_alone(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path / ".claude" / "settings.json", text)
    with pytest.raises(ConfigError, match=complaint):
        plan_install("project", tmp_path)
    assert path.read_text(encoding="utf-8") == text
    assert not (tmp_path / ".mcp.json").exists()


def test_an_empty_file_and_a_byte_order_mark_are_no_error(tmp_path: Path) -> None:
    written(tmp_path / ".mcp.json", "")
    path = written(tmp_path / ".claude" / "settings.json", '\ufeff{"a": 1}')
    apply(plan_install("project", tmp_path))
    assert read(path)["a"] == 1


def test_planning_writes_nothing_and_shows_a_diff(tmp_path: Path) -> None:
    written(tmp_path / ".claude" / "settings.json", '{\n  "model": "opus"\n}\n')
    servers, settings = plan_install("project", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".claude"]
    assert servers.diff().startswith("--- /dev/null\n")
    assert '+  "model": "opus",\n+  "hooks": {\n' in settings.diff()


def test_a_backup_keeps_the_old_text_and_the_mode_stays(tmp_path: Path) -> None:
    path = written(tmp_path / ".claude" / "settings.json", '{"a": 1}')
    path.chmod(0o600)
    (backup,) = apply(plan_install("project", tmp_path))
    assert backup.parent == path.parent
    assert backup.read_text(encoding="utf-8") == '{"a": 1}'
    assert {path.stat().st_mode & 0o777, backup.stat().st_mode & 0o777} == {0o600}


def test_a_file_that_changed_since_the_plan_is_not_overwritten(tmp_path: Path) -> None:
    plan = plan_install("project", tmp_path)
    path = written(tmp_path / ".mcp.json", '{"mcpServers": {}}')
    with pytest.raises(ConfigError, match="changed by another program"):
        apply(plan)
    assert path.read_text(encoding="utf-8") == '{"mcpServers": {}}'


def test_a_linked_settings_file_stays_a_link(tmp_path: Path) -> None:
    real = written(tmp_path / "dotfiles" / "settings.json", '{"a": 1}')
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").symlink_to(real)
    apply(plan_install("project", tmp_path))
    assert (tmp_path / ".claude" / "settings.json").is_symlink()
    assert "hooks" in read(real)


def test_line_ends_of_windows_stay(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(b'{\r\n\t"a": 1\r\n}\r\n')
    apply(plan_install("project", tmp_path))
    text = path.read_bytes()
    assert text.startswith(b'{\r\n\t"a": 1,\r\n\t"mcpServers"')
    assert text.count(b"\n") == text.count(b"\r\n")


def test_the_user_scope_writes_to_the_home_folder(home: Path, tmp_path: Path) -> None:
    changes = plan_install("user", tmp_path)
    assert [change.path for change in changes] == [home / ".claude.json", home / ".claude" / "settings.json"]
    apply(changes)
    assert "enabledMcpjsonServers" not in read(home / ".claude" / "settings.json")


def test_the_user_scope_follows_the_configured_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    paths = [change.path for change in plan_install("user", tmp_path)]
    assert paths == [tmp_path / "claude" / ".claude.json", tmp_path / "claude" / "settings.json"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a folder that cannot be written")
def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    changes = plan_install("project", tmp_path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ConfigError, match="cannot be written"):
            apply(changes)
    finally:
        tmp_path.chmod(0o700)
