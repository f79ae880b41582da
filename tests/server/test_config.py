"""Settings: their sources and order, and errors that say what to change."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import Settings
from swarm_memory.server.config import FROM_PROJECT, KEYS, SECTIONS, project_file_errors, resolve_settings, variable

Write = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path) -> Write:
    """Write the project's settings file."""

    def write(text: str) -> Path:
        path = tmp_path / ".swarm" / "config.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return tmp_path

    return write


@pytest.fixture
def own(home: Path) -> Write:
    """Write the user's settings file."""

    def write(text: str) -> Path:
        path = home / ".config" / "swarm-memory" / "config.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return path

    return write


def test_without_any_source_all_is_at_its_default(tmp_path: Path) -> None:
    resolved = resolve_settings(tmp_path, environ={})
    assert resolved.settings == Settings() == Settings.model_validate({name: form() for name, form in SECTIONS.items()})
    assert resolved.origin == {}


def test_each_source_outweighs_the_one_before(project: Write, own: Write) -> None:
    root = project("retrieve: {k: 4, alpha: 0.5, beta: 0.3, gamma: 0.1}")
    mine = own("retrieve: {k: 5, alpha: 0.6, beta: 0.2}")
    environ = {"SWARM_MEMORY_RETRIEVE__K": "6", "SWARM_MEMORY_RETRIEVE__ALPHA": "0.7"}
    resolved = resolve_settings(root, {"retrieve.k": "7"}, environ)
    retrieve = resolved.settings.retrieve
    assert (retrieve.k, retrieve.alpha, retrieve.beta, retrieve.gamma) == (7, 0.7, 0.2, 0.1)
    assert resolved.origin == {
        "retrieve.k": "command line",
        "retrieve.alpha": "environment SWARM_MEMORY_RETRIEVE__ALPHA",
        "retrieve.beta": str(mine),
        "retrieve.gamma": str(root / ".swarm" / "config.yaml"),
    }


def test_the_template_of_the_document_is_accepted_with_its_root_key(project: Write) -> None:
    root = project(
        """
        reasoningbank:
          retrieve: {k: 3, alpha: 0.65, beta: 0.15, gamma: 0.20, delta: 0.10, recency_half_life_days: 45,
                     duplicate_threshold: 0.87}
          judge: {model: "claude-sonnet-4.5", temperature: 0}
          distill: {max_items_per_traj: 3, redact_pii: true}
          consolidate: {run_every_new_items: 20, contradiction_threshold: 0.60, prune_age_days: 180,
                        min_confidence_keep: 0.30}
          matts: {enabled: true, parallel_k: 6, sequential_r: 3}
        """
    )
    settings = resolve_settings(root, environ={}).settings
    assert settings.judge.model == "claude-sonnet-4.5"
    assert settings.matts.parallel_k == 6


def test_sections_may_stand_beside_the_root_key(project: Write) -> None:
    root = project("reasoningbank: {retrieve: {k: 5}, judge: {temperature: 0}}\ndistill: {max_items_per_traj: 2}\n")
    settings = resolve_settings(root, environ={}).settings
    assert (settings.retrieve.k, settings.distill.max_items_per_traj) == (5, 2)


def test_a_setting_under_the_root_key_and_beside_it_is_refused(own: Write, tmp_path: Path) -> None:
    own("reasoningbank: {retrieve: {k: 5}}\nretrieve: {k: 4}\n")
    with pytest.raises(ConfigError, match=r"retrieve\.k appears twice in .*config\.yaml, .*: remove one"):
        resolve_settings(tmp_path, environ={})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("embedding: {provider: fastembed}", "embedding.provider=fastembed"),
        ("storage: {sqlite: ctypes}", "storage.sqlite=ctypes"),
        ("sources: {allow_github: [acme/*]}", "sources.allow_github"),
        ("sources: {github_url: 'https://git.acme.example/api/v3'}", "sources.github_url"),
    ],
)
def test_a_setting_of_earlier_versions_is_ignored_and_named(own: Write, tmp_path: Path, text: str, named: str) -> None:
    own(text)
    resolved = resolve_settings(tmp_path, environ={})
    assert resolved.settings == Settings()
    (notice,) = resolved.notices
    assert notice.startswith(f"{named} (")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("retrieve: {kk: 3}", "retrieve.k"),
        ("retreive: {k: 3}", "retrieve"),
        ("embedding: {base_ur: 'http://127.0.0.1:11434/v1'}", "embedding.base_url"),
        ("reasoning_bank: {retrieve: {k: 3}}", "reasoningbank"),
        ("chat: {providers: [{provider: openai, model: m, base_ur: 'http://127.0.0.1/v1'}]}", "base_url"),
    ],
)
def test_what_is_misspelt_is_refused_with_the_setting_that_is_meant(
    own: Write, tmp_path: Path, text: str, named: str
) -> None:
    own(text)
    with pytest.raises(ConfigError, match=rf"unknown setting .*config\.yaml: did you mean {named}"):
        resolve_settings(tmp_path, environ={})


def test_what_is_no_setting_is_ignored_and_named_with_its_place(project: Write) -> None:
    root = project("guard: {disabled_rules: [npm-token]}\ndistill: {max_items_per_traj: 2}\n")
    resolved = resolve_settings(root, environ={})
    assert resolved.settings.distill.max_items_per_traj == 2
    (notice,) = resolved.notices
    assert notice == f"guard ({root / '.swarm' / 'config.yaml'}) is ignored: there is no such setting"


def test_an_unknown_key_of_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the command line: did you mean retrieve\.k\?"):
        resolve_settings(tmp_path, {"retrieve.K": "3"}, {})


_UNFIT = ("!!bool maybe", '!!int ""', "!!timestamp b", "!!timestamp {=: b}", f"1{':1' * 300}:1.0", "2026-13-01")
WRONG = (
    ("retrieve: {k: many}", r"retrieve\.k in .*config\.yaml: .*integer.*it is 'many'.*default is 3"),
    ("retrieve: {k: 99}", r"retrieve\.k in .*less than or equal to 50"),
    ("retrieve: {alpha: .nan}", r"retrieve\.alpha in .*"),
    ("retrieve: {k: true}", r"retrieve\.k in .* must not be true"),
    ("retrieve: {k: [1, 2]}", r"retrieve\.k in .*valid integer"),
    ("tool_memory: {evaluator: best}", r"tool_memory\.evaluator in .*'auto' or 'evidence'"),
    ("retrieve: 3", r"retrieve in .* must be a mapping"),
    ("- 3", "the file in .* must be a mapping"),
    ("retrieve: {k: 3", "is not valid YAML"),
    ("a: !!python/object/apply:os.system [id]", "is not valid YAML"),
    *((f"retrieve: {{alpha: {each}}}", "is not valid YAML") for each in _UNFIT),
)
"""Values that neither file may contain."""

WRONG_OF_OWN = (
    ("sources: {allowed_folders: {acme: shop}}", r"sources\.allowed_folders in .* must be a list of strings"),
    ("sources: {allowed_folders: [~/docs, 3]}", r"sources\.allowed_folders in .* must be a list of strings"),
    ("matts: {allowed_commands: 3}", r'list of strings, such as \["one", "two"\], or .*one;;two \(it is \'3\'\)'),
    ("chat: {providers: {provider: claude_cli}}", r"chat\.providers in .* must be a list of mappings"),
    ("storage: {db: [a]}", r"storage\.db in .* valid string"),
    ("storage: [a]", r"storage in .* must be a mapping"),
)
"""Wrong values of settings that only the user's own file may set."""


@pytest.mark.parametrize(("text", "complaint"), [*WRONG, *WRONG_OF_OWN])
def test_a_wrong_value_names_key_file_and_what_it_may_be(own: Write, tmp_path: Path, text: str, complaint: str) -> None:
    own(text)
    with pytest.raises(ConfigError, match=complaint):
        resolve_settings(tmp_path, environ={})


@pytest.mark.parametrize(("text", "complaint"), WRONG)
def test_a_projects_file_that_is_wrong_is_named_and_left_out_whole(project: Write, text: str, complaint: str) -> None:
    root = project(f"{text}\nconsolidate: {{run_every_new_items: 7}}\n" if text.startswith("retrieve: {") else text)
    resolved = resolve_settings(root, environ={})
    assert (resolved.settings, resolved.files) == (Settings(), ())
    (notice,) = resolved.notices
    assert re.search(complaint, notice)
    assert project_file_errors(root) == (notice,)


@pytest.mark.parametrize("value", ["many", f"0x{'f' * 5000}"])
def test_a_projects_file_that_is_wrong_still_switches_off(project: Write, value: str) -> None:
    resolved = resolve_settings(project(f"enabled: false\nretrieve: {{k: {value}}}\n"), environ={})
    assert (resolved.settings.enabled, resolved.settings.retrieve.k, len(resolved.notices)) == (False, 3, 1)


_LISTS = r'allowed_folders in environment .* must be a list of strings, such as \["one", "two"\], or .*one;;two'
_PERSONAL = r"^distill\.redact_pii in environment .*: .*boolean.* 'names' \(it is 'Names'\); the default is True$"


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("RETRIEVE_K", "4", r"did you mean retrieve\.k"),
        ("JOBS__LEASE_S", "soon", "environment SWARM_MEMORY_JOBS__LEASE_S"),
        ("TEAM__URL", "htp://ada:hunter2@host/v1", r"team\.url in environment"),
        ("DISTILL__REDACT_PII", "Names", _PERSONAL),
        *(
            ("SOURCES__ALLOWED_FOLDERS", text, _LISTS)
            for text in ("[~/docs]", '["~/docs"', "[1]", "[[]]", "[" * 10_000)
        ),
    ],
)
def test_a_wrong_variable_is_named_with_what_it_may_be_and_no_secret(
    name: str, given: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        resolve_settings(tmp_path, environ={f"SWARM_MEMORY_{name}": given})
    assert "hunter2" not in str(raised.value)


def test_the_short_variables_name_database_and_sqlite_and_an_empty_one_nothing(tmp_path: Path) -> None:
    environ = {"SWARM_MEMORY_DB": "/data/bank.db", "SWARM_MEMORY_SQLITE": "scan"}
    storage = resolve_settings(tmp_path, environ=environ).settings.storage
    assert (storage.db, storage.sqlite) == ("/data/bank.db", "scan")
    assert resolve_settings(tmp_path, environ={"SWARM_MEMORY_DB": ""}).settings.storage.db is None


def test_null_takes_back_what_a_weaker_source_set_and_none_may_be_a_choice(own: Write, tmp_path: Path) -> None:
    own("storage: {project: shop}")
    settings = resolve_settings(tmp_path, {"storage.project": "null", "sources.reranker": "none"}, {}).settings
    assert (settings.storage.project, settings.sources.reranker) == (None, "none")


@pytest.mark.parametrize(
    "text",
    [
        *(f"storage: {{{each}}}" for each in ("db: ../../stolen.db", "tenant_id: other", "project: other")),
        "storage: {sqlite: scan}",
        "embedding: {base_url: 'https://evil.example'}",
        *(f"embedding: {{{each}}}" for each in ("api_key: sk-1", "provider: openai", "model: other")),
        "storage: {url: 'postgresql://elsewhere.example/memory'}",
        "retention: {trajectories_days: 1}",
        *(f"distill: {{redact_pii: {each}}}" for each in ("false", "'no'", "0", "names")),
        "credit: {holdout_rate: 0.9}",
        "chat: {providers: [{provider: openai, model: m, base_url: 'http://elsewhere.example'}]}",
        "chat: {learn_with: claude}",
        "judge: {max_trajectory_tokens: 9000}",
        "matts: {allowed_commands: rm -rf .}",
        "sources: {allow_mcp_servers: /}",
    ],
)
def test_a_file_that_may_come_with_a_clone_cannot_redirect_data(project: Write, text: str) -> None:
    resolved = resolve_settings(project(f"{text}\nretrieve: {{k: 5}}\n"), environ={})
    assert (resolved.settings, resolved.origin) == (Settings(), {})
    assert "may not be set by a project's file" in resolved.notices[0]


def test_every_section_is_either_allowed_in_a_projects_file_or_known_to_be_dangerous() -> None:
    assert set(SECTIONS) - FROM_PROJECT == {
        *("storage", "embedding", "chat", "http", "sources", "output", "retention", "team", "credit", "mirror")
    }


def test_chat_models_are_a_list_in_a_file_and_json_in_the_environment(own: Write, tmp_path: Path) -> None:
    own("chat: {providers: [{provider: openai, model: m-1, base_url: 'http://127.0.0.1:1/v1'}], timeout_s: 9}")
    chat = resolve_settings(tmp_path, environ={}).settings.chat
    assert ([provider.name for provider in chat.providers], chat.timeout_s) == (["openai:m-1"], 9)
    outer = {"SWARM_MEMORY_CHAT__PROVIDERS": '[{"provider":"claude_cli"}]'}
    resolved = resolve_settings(tmp_path, environ=outer)
    assert [provider.name for provider in resolved.settings.chat.providers] == ["claude_cli:default"]
    row = ("chat.providers", [{"provider": "claude_cli"}], "environment SWARM_MEMORY_CHAT__PROVIDERS")
    assert row in resolved.rows()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ('[{"provider":"openai","model":"m","api_key_env":"sk-pasted"}]', r"chat\.providers\[0\]\.api_key_env in"),
        ('[{"provider":"openai","model":"m","base_url":"https://sk-pasted@h.example"}]', "name the key's variable"),
        ('[{"provider":"gemini"}]', r"chat\.providers\[0\]\.provider.*'openai', 'anthropic' or 'claude_cli'"),
        ('[{"provider":"openai"}]', r"chat\.providers\[0\] in .*needs `model`"),
        ('[{"provider":"claude_cli","model":["sk-pasted"]}]', r"chat\.providers\[0\]\.model in .*valid string"),
        ('["sk-pasted"]', r"chat\.providers\[0\] in .*valid dictionary"),
        ("sk-pasted", "must be a list of mappings.*as JSON"),
        ('{"provider":"claude_cli"}', "must be a list of mappings.*as JSON"),
    ],
)
def test_a_wrong_chat_model_is_named_and_a_pasted_key_is_never_repeated(
    given: str, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint) as raised:
        resolve_settings(tmp_path, environ={"SWARM_MEMORY_CHAT__PROVIDERS": given})
    assert "sk-pasted" not in f"{raised.value}{raised.value.__cause__}"


@pytest.mark.parametrize(
    ("in_file", "in_variable", "expected"),
    [
        ('["~/docs", "/srv/notes"]', '["~/docs", "/srv/notes"]', ("~/docs", "/srv/notes")),
        ('"~/docs;; /srv/notes"', "~/docs;;/srv/notes", ("~/docs", "/srv/notes")),
        ("\n    - ~/docs;;x", ' ["~/docs;;x"]\n', ("~/docs;;x",)),
        ("|\n    ~/docs\n\n    /srv/notes", "~/docs\n\n/srv/notes", ("~/docs", "/srv/notes")),
        ("[]", "[]", ()),
    ],
)
def test_a_list_is_a_list_and_a_text_its_lines(
    in_file: str, in_variable: str, expected: tuple[str, ...], own: Write, tmp_path: Path
) -> None:
    own(f"sources:\n  allowed_folders: {in_file}\n")
    for environ in ({}, {"SWARM_MEMORY_SOURCES__ALLOWED_FOLDERS": in_variable}):
        assert resolve_settings(tmp_path, environ=environ).settings.sources.allowed_folders == expected


def test_a_file_of_the_named_configuration_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "xdg" / "swarm-memory").mkdir(parents=True)
    (tmp_path / "xdg" / "swarm-memory" / "config.yaml").write_text("retrieve: {k: 9}")
    assert resolve_settings(tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "xdg")}).settings.retrieve.k == 9
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # pyright: ignore
    with pytest.raises(ConfigError, match="set HOME"):
        resolve_settings(tmp_path, environ={})


@pytest.mark.parametrize(
    ("key", "value"),
    [("embedding.api_key", "sk-hunter2"), ("storage.url", "postgresql://me:hunter2@db.example/memory")],
)
def test_secrets_are_masked_wherever_they_are_shown(tmp_path: Path, key: str, value: str) -> None:
    resolved = resolve_settings(tmp_path, environ={variable(key): value})
    assert (key, "********", f"environment {variable(key)}") in resolved.rows()
    assert "hunter2" not in str(resolved) + repr(resolved.settings) + resolved.settings.model_dump_json()


def test_every_setting_has_a_variable_that_sets_it(tmp_path: Path) -> None:
    for key in KEYS:
        if "api_key" in key:
            continue
        default = {row[0]: row[1] for row in resolve_settings(tmp_path, environ={}).rows()}[key]
        text = "null" if default is None else str(default) or "x"
        assert key in resolve_settings(tmp_path, environ={variable(key): text}).origin


def test_a_huge_or_unreadable_file_is_refused(own: Write, project: Write, tmp_path: Path) -> None:
    root = project("# " + "x" * 32_001)
    assert "larger than" in resolve_settings(root, environ={}).notices[0]
    (root / ".swarm" / "config.yaml").write_bytes(b"\xff\xfe")
    assert "cannot be read" in resolve_settings(root, environ={}).notices[0]
    users = own("# " + "x" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than"):
        resolve_settings(tmp_path, environ={})
    users.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve_settings(tmp_path, environ={})


def test_a_bomb_of_aliases_is_ignored_without_being_unfolded(project: Write) -> None:
    lines = ["a: &a [x, x]"] + [f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(24)]
    assert len(resolve_settings(project("\n".join(lines)), environ={}).notices) == 25
    root = project("\n".join([*lines, "retrieve: *y"]))
    assert len(resolve_settings(root, environ={}).left_out) == 1


def test_the_variable_of_a_teams_token_is_no_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_MEMORY_TEAM_TOKEN", "swm_secret")
    assert "swm_secret" not in repr(resolve_settings(tmp_path))
