"""What `install` writes into Claude Code's files, and that `uninstall` removes exactly that."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_files import committed, git, written

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.hosts.host import SCOPES, InstallScope
from swarm_memory.server.hosts.settings import PORTABLE_HOOKS, PORTABLE_SERVER, SERVER_NAME, cli_command, hook_command
from swarm_memory.server.hosts.settings_files import apply
from swarm_memory.server.location import state_folder

plan_install, plan_uninstall = HOST.plan_install, HOST.plan_uninstall
hook_entries, server_entry, installed_scopes = HOST.hook_entries, HOST.server_entry, HOST.installed_scopes

REPOSITORY = Path(__file__).parents[2]


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_person_gets_the_server_and_the_hooks_of_a_project_alone(home: Path, tmp_path: Path) -> None:
    apply(plan_install("local", tmp_path))
    server, hooks = server_entry(cli_command()), hook_entries(hook_command())
    assert Path(server["command"]).is_absolute()
    assert {entry["hooks"][0].get("command") for (entry,) in hooks.values()} == {sys.executable}
    assert read(home / ".claude.json") == {"projects": {str(tmp_path): {"mcpServers": {SERVER_NAME: server}}}}
    assert read(tmp_path / ".claude" / "settings.local.json") == {"hooks": hooks}
    assert [path.name for path in tmp_path.iterdir()] == [".claude"]
    assert (home / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert installed_scopes(tmp_path) == ["local"]


def test_a_project_gets_the_server_the_hooks_and_their_approval_and_no_path_of_this_machine(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    assert read(tmp_path / ".mcp.json") == {"mcpServers": {SERVER_NAME: server_entry(PORTABLE_SERVER)}}
    settings = read(tmp_path / ".claude" / "settings.json")
    assert settings == {"hooks": hook_entries(PORTABLE_HOOKS), "enabledMcpjsonServers": [SERVER_NAME]}
    for text in (path.read_text() for path in tmp_path.rglob("*") if path.is_file()):
        assert "python" not in text
    assert installed_scopes(tmp_path) == ["project"]


def test_the_example_is_what_install_writes_for_a_project() -> None:
    example = read(REPOSITORY / "claude_settings.example.json")
    where = " ".join(example.pop("//"))
    assert all(name in where for name in (".mcp.json", ".claude/settings.json", "~/.claude.json"))
    servers, hooks = {SERVER_NAME: server_entry(PORTABLE_SERVER)}, hook_entries(PORTABLE_HOOKS)
    assert example == {"mcpServers": servers, "enabledMcpjsonServers": [SERVER_NAME], "hooks": hooks}


def test_worktrees_and_folders_below_are_known_by_their_repository_and_those_of_a_bare_one_have_their_own_settings(
    home: Path, tmp_path: Path
) -> None:
    main, other, bare, beside_bare = (tmp_path / name for name in ("main", "other", "bare.git", "beside"))
    git(committed(main), "worktree", "add", "-q", str(other))
    git(main, "clone", "-q", "--bare", ".", str(bare))
    git(bare, "worktree", "add", "-q", str(beside_bare))
    (main / "below").mkdir()
    apply(plan_install("local", other))
    assert list(read(home / ".claude.json")["projects"]) == [str(main)]
    assert (main / ".claude" / "settings.local.json").exists()
    assert plan_install("local", main / "below") == []
    apply(plan_install("local", beside_bare))
    assert list(read(home / ".claude.json")["projects"]) == [str(main), str(bare)]
    assert (beside_bare / ".claude" / "settings.local.json").exists()


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


STYLES = [
    '{"model":"opus","hooks":{"Stop":[{"matcher":"","hooks":[{"type":"command","command":"x"}]}]}}',
    '{\n\t"hooks": {"SessionEnd": [], "Stop": []},\r\n "projects": {}, "x": "\\u00fc"\n}\n\n',
    "{}",
    "",
    '\ufeff{"mcpServers": {"other": {"command": "/bin/other"}}}',
]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("text", STYLES)
def test_uninstall_gives_back_the_very_bytes_where_nobody_wrote_since(
    tmp_path: Path, text: str, scope: InstallScope
) -> None:
    paths = [change.path for change in plan_install(scope, tmp_path)]
    assert len(paths) == 2
    for path in paths:
        written(path, text)
    apply(plan_install(scope, tmp_path))
    assert plan_install(scope, tmp_path) == []
    apply(plan_uninstall(scope, tmp_path))
    assert [path.read_bytes() for path in paths] == [text.encode()] * 2
    assert plan_uninstall(scope, tmp_path) == []
    assert list((state_folder() / "edited-files").iterdir()) == []


def test_two_scopes_in_one_file_are_given_back_in_either_order(home: Path, tmp_path: Path) -> None:
    path, text = home / ".claude.json", '{"numStartups":3}'
    orders: list[tuple[InstallScope, InstallScope]] = [("local", "user"), ("user", "local")]
    for first, second in orders:
        path.write_text(text)
        apply(plan_install("local", tmp_path))
        apply(plan_install("user", tmp_path))
        apply(plan_uninstall(first, tmp_path))
        assert installed_scopes(tmp_path) == [second]
        assert SERVER_NAME in path.read_text()
        apply(plan_uninstall(second, tmp_path))
        assert path.read_text() == text


def test_what_somebody_wrote_since_is_kept_and_only_our_parts_go(home: Path, tmp_path: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"numStartups": 3, "projects": {}}')
    apply(plan_install("local", tmp_path))
    data = read(path)
    data["numStartups"] = 4
    data["projects"][str(tmp_path)]["allowedTools"] = []
    path.write_text(json.dumps(data))
    (copy,) = apply(plan_uninstall("local", tmp_path))
    assert read(path) == {"numStartups": 4, "projects": {str(tmp_path): {"allowedTools": []}}}
    assert read(copy) == data


def test_a_file_that_was_only_set_out_again_keeps_its_new_form(home: Path, tmp_path: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"numStartups":3}')
    apply(plan_install("user", tmp_path))
    path.write_text(json.dumps(read(path), indent=4))
    apply(plan_uninstall("user", tmp_path))
    assert path.read_text() == '{\n    "numStartups": 3\n}'


@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("scope", SCOPES)
def test_uninstall_removes_the_folders_that_install_made_and_no_others(
    home: Path, tmp_path: Path, scope: InstallScope, was_there: bool
) -> None:
    folder = (home if scope == "user" else tmp_path) / ".claude"
    if was_there:
        folder.mkdir()
    apply(plan_install(scope, tmp_path))
    assert folder.is_dir()
    apply(plan_uninstall(scope, tmp_path))
    assert folder.is_dir() == was_there
    assert not (tmp_path / ".mcp.json").exists()
    assert list((state_folder() / "edited-files").iterdir()) == []


def test_a_server_of_another_program_with_our_name_is_refused_and_left_alone(tmp_path: Path) -> None:
    written(tmp_path / ".claude" / "settings.json", '{"hooks": {}, "enabledMcpjsonServers": []}')
    written(tmp_path / ".mcp.json", '{"mcpServers": {"swarm-memory": {"command": "/bin/another-program"}}}')
    with pytest.raises(ConfigError, match="another server called"):
        plan_install("project", tmp_path)
    assert plan_uninstall("project", tmp_path) == []


def earlier(root: Path) -> tuple[Path, Path]:
    """Write what the previous version wrote into a project's shared files, along with the project's own entries."""
    command = {"type": "command", "command": "/old/python", "args": ["-I", "-m", "swarm_memory.server.hooks", "x"]}
    hooks = {event: [{"hooks": [command]}] for event in ("UserPromptSubmit", "PreToolUse", "SessionStart", "Stop")}
    hooks |= {"PostToolUse": [{"hooks": [command, {"command": "mine"}]}]}
    server = {"type": "stdio", "command": "/old/python", "args": ["-I", "-m", "swarm_memory.server.cli", "serve"]}
    settings = {"hooks": hooks, "enabledMcpjsonServers": [SERVER_NAME]}
    return (
        written(root / ".mcp.json", json.dumps({"mcpServers": {SERVER_NAME: server, "other": {"command": "o"}}})),
        written(root / ".claude" / "settings.json", json.dumps(settings)),
    )


LEFT = {"hooks": {"PostToolUse": [{"hooks": [{"command": "mine"}]}]}}


def test_what_an_earlier_version_installed_is_made_portable_for_a_project(tmp_path: Path) -> None:
    servers, settings = earlier(tmp_path)
    apply(plan_install("project", tmp_path))
    assert read(servers)["mcpServers"][SERVER_NAME] == server_entry(PORTABLE_SERVER)
    hooks = read(settings)["hooks"]
    assert hooks["PostToolUse"].pop(0) == LEFT["hooks"]["PostToolUse"][0]
    assert {event: groups for event, groups in hooks.items() if groups} == hook_entries(PORTABLE_HOOKS)


def test_what_an_earlier_version_installed_is_taken_out(tmp_path: Path) -> None:
    servers, settings = earlier(tmp_path)
    assert installed_scopes(tmp_path) == ["project"]
    apply(plan_uninstall("project", tmp_path))
    assert read(servers) == {"mcpServers": {"other": {"command": "o"}}}
    assert read(settings) == LEFT


def test_what_the_project_shares_stays_when_a_person_installs_and_uninstalls(tmp_path: Path) -> None:
    apply(plan_install("project", tmp_path))
    shared = (tmp_path / ".mcp.json").read_text(), (tmp_path / ".claude" / "settings.json").read_text()
    apply(plan_install("local", tmp_path))
    assert installed_scopes(tmp_path) == ["local", "project"]
    apply(plan_uninstall("local", tmp_path))
    assert ((tmp_path / ".mcp.json").read_text(), (tmp_path / ".claude" / "settings.json").read_text()) == shared


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{,}", "not valid JSON"),
        ('// a comment\n{"a": 1}', "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"hooks": []}', "hooks must be an object"),
        ('{"hooks": {"Stop": {}}}', "Stop must be a list"),
        ('{"enabledMcpjsonServers": true}', "must be a list"),
        ('{"a": 1, "a": 2}', "'a' appears twice"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused_and_left_alone(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path / ".claude" / "settings.json", text)
    with pytest.raises(ConfigError, match=complaint):
        plan_install("project", tmp_path)
    assert path.read_text(encoding="utf-8") == text
    assert not (tmp_path / ".mcp.json").exists()


DOCUMENT = """{
  "hooks": {
    "preTaskHook": {
      "command": "npx",
      "args": ["claude-flow", "hooks", "pre-task", "--retrieve-reasoningbank", "true"],
      "alwaysRun": true
    },
    "postTaskHook": {"command": "npx", "args": ["claude-flow", "hooks", "post-task"], "alwaysRun": true}
  }
}
"""
"""Keys that ReasoningBank's document lists for a project's settings; Claude Code has no such hooks."""


def test_keys_of_another_program_among_the_hooks_stay_where_they_are(tmp_path: Path) -> None:
    path = written(tmp_path / ".claude" / "settings.json", DOCUMENT)
    apply(plan_install("local", tmp_path))
    assert path.read_text(encoding="utf-8") == DOCUMENT
    apply(plan_install("project", tmp_path))
    assert read(path)["hooks"] == json.loads(DOCUMENT)["hooks"] | hook_entries(PORTABLE_HOOKS)
    assert installed_scopes(tmp_path) == ["local", "project"]
    apply(plan_uninstall("local", tmp_path))
    apply(plan_uninstall("project", tmp_path))
    assert path.read_text(encoding="utf-8") == DOCUMENT
    assert installed_scopes(tmp_path) == []


def test_planning_writes_nothing_and_shows_a_diff(tmp_path: Path) -> None:
    written(tmp_path / ".claude" / "settings.json", '{\n  "model": "opus"\n}\n')
    servers, settings = plan_install("project", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".claude"]
    assert servers.diff().startswith("--- /dev/null\n")
    assert '+  "model": "opus",\n+  "hooks": {\n' in settings.diff()


def test_a_backup_keeps_the_old_text_in_our_own_folder_for_this_user_alone(tmp_path: Path) -> None:
    path = written(tmp_path / ".claude" / "settings.json", '{"a": 1}')
    path.chmod(0o640)
    (backup,) = apply(plan_install("project", tmp_path))
    assert backup.parent == state_folder() / "edited-files"
    assert backup.read_text(encoding="utf-8") == '{"a": 1}'
    assert [path.stat().st_mode & 0o777, backup.stat().st_mode & 0o777] == [0o640, 0o600]
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]
    assert apply(plan_install("project", tmp_path)) == [], "what stands there we wrote ourselves"
    assert backup.read_text(encoding="utf-8") == '{"a": 1}'


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


@pytest.mark.parametrize("plan", [plan_install, plan_uninstall])
@pytest.mark.parametrize(
    ("scope", "link", "target"),
    [
        ("local", ".claude/settings.local.json", ".claude/settings.json"),
        ("local", ".claude", ".claude"),
        ("project", ".claude/settings.json", ".claude/settings.json"),
        ("project", ".claude/settings.json", ".claude/not-there.json"),
        ("project", ".claude", "elsewhere"),
        ("project", ".mcp.json", ".claude.json"),
    ],
)
def test_a_link_of_a_clone_that_leads_out_of_it_is_refused_and_nothing_is_written(
    home: Path, tmp_path: Path, plan: Callable[[InstallScope, Path], Any], scope: InstallScope, link: str, target: str
) -> None:
    (home / "elsewhere").mkdir()
    apply(plan_install("user", home))
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(home / target)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with pytest.raises(ConfigError, match=r"out of the project through a symbolic link.*a real file.*or use `--user`"):
        plan(scope, tmp_path)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("plan", [plan_install, plan_uninstall])
def test_what_an_earlier_version_wrote_is_left_alone_behind_a_link_out_of_the_project(
    tmp_path: Path, plan: Callable[[InstallScope, Path], Any]
) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    (project / ".claude").mkdir(parents=True)
    servers, settings = earlier(other)
    (project / ".mcp.json").symlink_to(servers)
    (project / ".claude" / "settings.json").symlink_to(settings)
    before = servers.read_text(), settings.read_text()
    apply(plan("local", project))
    apply(plan("user", project))
    assert (servers.read_text(), settings.read_text()) == before


def test_the_users_own_files_may_be_links_to_anywhere(home: Path, tmp_path: Path) -> None:
    servers, settings = written(tmp_path / "dotfiles" / "servers", "{}"), written(tmp_path / "dotfiles" / "set", "{}")
    (home / ".claude").mkdir()
    (home / ".claude.json").symlink_to(servers)
    (home / ".claude" / "settings.json").symlink_to(settings)
    apply(plan_install("local", home))
    apply(plan_install("user", home))
    assert set(read(servers)) == {"projects", "mcpServers"}
    assert read(settings) == {"hooks": hook_entries(hook_command())}


def test_a_link_to_itself_is_shown_as_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").symlink_to("settings.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        plan_install("project", tmp_path)


def test_line_ends_of_windows_stay_and_are_shown_as_any_other(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(b'{\r\n\t"a": 1\r\n}\r\n')
    plan = plan_install("project", tmp_path)
    assert "\r" not in "".join(change.diff() for change in plan)
    apply(plan)
    text = path.read_bytes()
    assert text.startswith(b'{\r\n\t"a": 1,\r\n\t"mcpServers"')
    assert text.count(b"\n") == text.count(b"\r\n")


def test_the_user_scope_writes_to_the_home_folder_or_the_configured_one(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = plan_install("user", tmp_path)
    assert [change.path for change in changes] == [home / ".claude.json", home / ".claude" / "settings.json"]
    apply(changes)
    assert "enabledMcpjsonServers" not in read(home / ".claude" / "settings.json")
    assert plan_install("user", home) == [], "in the home folder too"
    assert installed_scopes(home) == ["user"]
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
