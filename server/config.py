"""Resolves each setting from files, the environment and the command line; it knows no adapter."""

import difflib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast, get_args

from pydantic import BaseModel, JsonValue, SecretStr, ValidationError

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import ChatProviderSettings, PersonalData, Settings
from swarm_memory.server.folders import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.server.location import project_file, user_file
from swarm_memory.server.switch import DISABLED
from swarm_memory.tools.text.cleaning import read_yaml

ENV_SHORT = {"SWARM_MEMORY_DB": "storage.db", "SWARM_MEMORY_SQLITE": "storage.sqlite"}

_NO_SETTINGS = (CHILD_VARIABLE, DISABLED, Settings().team.token_env)

ROOT_KEY = "reasoningbank"
MAX_FILE_BYTES, MAX_PROJECT_FILE_BYTES = 1_000_000, 32_000
"""A project's file has the lower limit: it may have come with a clone, and a hook reads it while a person waits."""

FROM_PROJECT = frozenset({
    "retrieve", "judge", "distill", "consolidate", "matts", "promote", "hooks", "jobs", "learn", "tool_memory",
})  # fmt: skip
"""The sections that a project's file may set. The file may come with a cloned repository, so it must not decide whose
memories are read or where texts are sent. A new section is added only after someone has considered that."""

NOT_FROM_PROJECT = frozenset({
    "learn.max_new_per_day", "matts.allowed_commands", "judge.max_trajectory_tokens", "retrieve.rerank",
})  # fmt: skip
"""Keys of those sections that only the user may set: they decide how much is stored, run and sent."""

_FORMER = (("embedding.provider", "fastembed"), ("storage.sqlite", "ctypes"))
"""Values of earlier versions. The default replaces them; banks made with them still open."""

PROVIDERS = "chat.providers"
"""A list of mappings in a file; the same list as JSON in the environment and on the command line."""

_MISSPELT_SECTION, _MISSPELT = 0.8, 0.9
"""An unknown key at least this similar to a section or a setting (`difflib`'s ratio) counts as misspelt."""

Values: TypeAlias = dict[str, tuple[Any, str]]
"""The raw value and where it was set, by key `section.name`."""

ENABLED = "enabled"
"""The only key outside of the sections."""

SECTIONS = {
    name: cast(type[BaseModel], info.annotation) for name, info in Settings.model_fields.items() if name != ENABLED
}
KEYS = (ENABLED, *(f"{section}.{name}" for section, model in SECTIONS.items() for name in model.model_fields))


class ResolvedSettings(NamedTuple):
    """The effective settings, and where each value that is not a default was set."""

    settings: Settings
    origin: Mapping[str, str]
    """By key `section.name`; an absent key has its default."""
    files: tuple[Path, ...]
    """The files that were read, weakest first."""
    unknown: Mapping[str, str] = MappingProxyType({})
    """Where each unknown key was found; such keys are ignored."""
    left_out: tuple[str, ...] = ()
    """What is wrong with the project's file, which then sets nothing but possibly `enabled: false`."""

    @property
    def notices(self) -> list[str]:
        """Return a line for a project's file that is left out, and for each key that is ignored."""
        unknown = self.unknown.items()
        return [*self.left_out, *(f"{key} ({origin}) is ignored: there is no such setting" for key, origin in unknown)]

    def rows(self) -> list[tuple[str, JsonValue, str]]:
        """Return (key, value, origin) of every setting; secrets are masked."""
        return [(key, _shown(value_of(self.settings, key)), self.origin.get(key, "default")) for key in KEYS]


def value_of(settings: Settings, key: str) -> Any:
    """Return the value of a known key."""
    section, _, name = key.partition(".")
    held = getattr(settings, section)
    return getattr(held, name) if name else held


def resolve_settings(
    root: Path, overrides: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> ResolvedSettings:
    """Merge all sources; later ones override earlier ones: defaults, project file, user file, environment, `overrides`.

    `overrides` come from the command line, by key `section.name`. The project's file is the weakest and may not set
    every key, because it may have come with a cloned repository; an invalid one is left out with a notice. An invalid
    value of any other source raises `ConfigError`, which names the key, the place and what is allowed.
    """
    environ = os.environ if environ is None else environ
    of_project, of_user = project_file(root), user_file(environ)
    merged, left_out = _of_project(of_project)
    if of_user.is_file():
        merged |= _from_file(of_user, MAX_FILE_BYTES)
    merged |= _from_environment(environ)
    for key, text in (overrides or {}).items():
        if key not in KEYS:
            raise _unknown(key, "the command line")
        merged[key] = (_or_null(key, text), "command line")
    files = tuple(path for path in (of_project, of_user) if path.is_file() and not (left_out and path == of_project))
    unknown = _taken_unknown(merged)
    unknown |= {f"{key}={former}": merged.pop(key)[1] for key, former in _FORMER if merged.get(key, ("",))[0] == former}
    settings = _validated(merged)
    return ResolvedSettings(settings, {key: origin for key, (_, origin) in merged.items()}, files, unknown, left_out)


def project_file_errors(root: Path) -> tuple[str, ...]:
    """Return why a project's settings file is left out; empty where it is not."""
    return _of_project(project_file(root))[1]


def _of_project(file: Path) -> tuple[Values, tuple[str, ...]]:
    """Return what a project's file sets, and what is wrong with it; an invalid one can only switch swarm-memory off."""
    values: Values = {}
    try:
        if file.exists() and not file.is_file():
            raise ConfigError(f"{file} is not a file")
        if file.is_file():
            if file.is_symlink() or file.parent.is_symlink():  # it may lead to any file of the user's
                raise ConfigError(f"{file} is reached via a symbolic link: a project's settings must be a real file")
            values = _from_file(file, MAX_PROJECT_FILE_BYTES)
            _refuse_dangerous(values)
            known = {**values}
            _taken_unknown(known)
            _validated(known)
    except (ConfigError, OSError, ValueError) as error:  # Python prints no number of more than 4,300 digits
        kept = {key: value for key, value in values.items() if key == ENABLED and value[0] is False}
        return kept, (f"the project's settings are ignored: {error}",)
    return values, ()


def _taken_unknown(values: Values) -> dict[str, str]:
    """Remove unknown keys, such as those of an earlier version; return where each was set, by key."""
    unknown = {key: values.pop(key)[1] for key in [*values] if key not in KEYS}
    for key, origin in unknown.items():
        cutoff = _MISSPELT if "." in key else _MISSPELT_SECTION
        if difflib.get_close_matches(key, (ROOT_KEY, *SECTIONS, *KEYS), n=1, cutoff=cutoff):
            raise _unknown(key, origin)  # misspelt: the setting that was meant may decide where data is sent
    return unknown


def _from_file(path: Path, max_bytes: int) -> Values:
    try:
        if path.stat().st_size > max_bytes:
            raise ConfigError(f"{path} is larger than {max_bytes:,} bytes: that is too large for a settings file")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    return _parsed(text, str(path))


def _parsed(text: str, origin: str) -> Values:
    """Return the values of a file by key; its sections may be under the root key, next to it, or both."""
    try:
        document = read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{origin} is not valid YAML: {error}") from error
    top = _mapping(document, "the file", origin)
    values: Values = {}
    for sections in (_mapping(top.pop(ROOT_KEY, None), ROOT_KEY, origin), top):
        for section, content in sections.items():
            named = _mapping(content, section, origin) if section in SECTIONS else {"": content}
            for name, value in named.items():
                key = f"{section}.{name}" if name else section
                if key in values:
                    raise ConfigError(f"{key} appears twice in {origin}, under {ROOT_KEY} and outside it: remove one")
                values[key] = (value, origin)
    return values


def _mapping(value: object, what: str, origin: str) -> dict[str, object]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{what} in {origin} must be a mapping of settings, not {type(value).__name__}")
    return {str(key): content for key, content in cast(dict[object, object], value).items()}


def with_setting(text: str, key: str, value: str, origin: str) -> str:
    """Return the text of a settings file with one key set to a word, plain or in quotes; all else stays unchanged.

    The key's former value is replaced, or a line is inserted at the top of its section, or a new section is appended.
    Raises `ConfigError` where the text cannot be parsed, or where none of these ways sets this value and nothing else.
    """
    before = _parsed(text, origin)
    section, _, name = key.partition(".")
    entry = f"{name}: {value}"
    wanted = before | _parsed(f"{section}: {{{entry}}}", origin)
    replaced = re.finditer(rf"\b{name}:[ \t]*[^\s,#}}]+", text)  # other sections may have a key of that name
    begun = re.finditer(rf"(?m)^ *{section}:[ \t]*(?:\{{|\n( +))", text)
    ways = [text[: at.start()] + entry + text[at.end() :] for at in replaced]
    ways += [text[: at.end()] + entry + (f"\n{at[1]}" if at[1] else ", ") + text[at.end() :] for at in begun]
    if not re.search(rf"(?m)^ *{section}:", text):  # else the section would appear twice
        ways.append("".join(f"{line}\n" for line in (*text.splitlines(), f"{section}: {{{entry}}}")))
    for after in ways:
        with suppress(ConfigError):  # a way that does not fit the file's form may produce invalid YAML
            if _parsed(after, origin) == wanted:
                return after
    raise ConfigError(f"{origin} is written in a form that swarm-memory does not edit: set {key} in it yourself")


def _from_environment(environ: Mapping[str, str]) -> Values:
    """Read `SWARM_MEMORY_<SECTION>__<NAME>` and the short names; an empty variable counts as not set."""
    values: Values = {}
    for name in sorted(environ):
        if not name.upper().startswith(ENV_PREFIX) or not environ[name] or name in _NO_SETTINGS:
            continue
        key = ENV_SHORT.get(name) or name[len(ENV_PREFIX) :].lower().replace("__", ".", 1)
        values[key] = (_or_null(key, environ[name]), f"environment {name}")
    return values


def _or_null(key: str, text: str) -> str | None:
    """Return a text, or None for "null" and "none" where the key has no such choice."""
    section, _, name = key.rpartition(".")
    field = SECTIONS.get(section, Settings).model_fields.get(name)
    return None if text.lower() in {"null", "none"}.difference(get_args(field and field.annotation)) else text


def variable(key: str) -> str:
    """Return the environment variable of a key: `retrieve.k` → `SWARM_MEMORY_RETRIEVE__K`."""
    return ENV_PREFIX + key.upper().replace(".", "__", 1)


def _refuse_dangerous(values: Values) -> None:
    for key, (value, origin) in values.items():
        if key not in KEYS:
            continue
        is_free = key == ENABLED or (key.partition(".")[0] in FROM_PROJECT and key not in NOT_FROM_PROJECT)
        is_guard = key in {"distill.redact_pii", "distill.screen_with_model"}
        if not is_free or (is_guard and value is not True):
            what = f"{key}: {str(value).lower()}" if is_guard else key
            raise ConfigError(
                f"{what} may not be set by a project's file, which may come with a cloned repository ({origin}); "
                f"set it in your own settings file or with {variable(key)}"
            )


def _validated(values: Values) -> Settings:
    given: dict[str, dict[str, Any]] = {}
    for key, (value, origin) in values.items():
        section, _, name = key.rpartition(".")
        form = SECTIONS.get(section, Settings)
        if isinstance(value, bool) and cast("Any", form.model_fields[name].annotation) not in (bool, PersonalData):
            raise ConfigError(f"{key} in {origin} must not be {str(value).lower()}; {_default_of(key)}")
        given.setdefault(section, {})[name] = _providers(value, origin) if key == PROVIDERS else value
    checked: dict[str, BaseModel] = {}
    for section, held in given.items():
        try:
            checked[section] = SECTIONS.get(section, Settings).model_validate(held)
        except ValidationError as error:
            raise _invalid(error, section, values) from error
    settings = cast("Settings", checked.pop("", None) or Settings.model_construct())
    return settings.model_copy(update=checked)


def _providers(value: object, origin: str) -> object:
    """Return the chat models as the list that a file has; a text is parsed as JSON. Raises `ConfigError`."""
    with suppress(ValueError, RecursionError):
        value = json.loads(value) if isinstance(value, str) else () if value is None else value
    if isinstance(value, list | tuple):
        return cast(object, value)
    # The text is not repeated: it may hold a pasted key.
    wanted = 'a list of mappings such as [{"provider": "claude_cli"}], as JSON'
    raise ConfigError(f"{PROVIDERS} in {origin} must be {wanted}")


def _invalid(error: ValidationError, section: str, values: Values) -> ConfigError:
    """Name the key, the place and the allowed values; never repeat what may hold a secret: keys, addresses, lists."""
    errors = error.errors(include_url=False)
    first = errors[0]
    key = ".".join(str(part) for part in (section, *first["loc"][:1]) if part)
    value, origin = values.get(key, (None, "the settings"))
    inner = first["loc"][1:]
    if inner and isinstance(inner[0], int):
        entry, *names = inner
        place = ".".join([f"{key}[{entry}]", *map(str, names)])
        if first["type"] == "extra_forbidden":
            return _unknown(place, origin)
        return ConfigError(f"{place} in {origin}: {first['msg']}")
    is_secret = "api_key" in key or key == "team.token" or key.endswith("url") or key == PROVIDERS
    is_shown = isinstance(value, str | int | float) and not is_secret
    given = f" (it is {str(value)[:80]!r})" if is_shown else ""
    forms = (each["msg"] for each in errors if each["loc"][:1] == first["loc"][:1])
    why = ", or: ".join(forms).removeprefix("Value error, ")
    return ConfigError(f"{key} in {origin}: {why}{given}; {_default_of(key)}")


def _default_of(key: str) -> str:
    return f"the default is {_shown(value_of(Settings(), key))!r}"


def _unknown(key: str, origin: str) -> ConfigError:
    """Suggest the setting that may be meant; a key of a chat model is compared only with a chat model's keys."""
    model, _, name = key.rpartition("].")
    known = (*ChatProviderSettings.model_fields,) if model else (ROOT_KEY, *SECTIONS, *KEYS)
    near = difflib.get_close_matches(name, known, n=1)
    every = f"a model's settings are {', '.join(known)}" if model else "`swarm-memory status --settings` lists them all"
    return ConfigError(f"unknown setting {key!r} in {origin}: {f'did you mean {near[0]}?' if near else every}")


def _shown(value: Any) -> JsonValue:
    if isinstance(value, tuple):
        entries = cast("tuple[BaseModel | str, ...]", value)
        return [
            each if isinstance(each, str) else each.model_dump(mode="json", exclude_defaults=True) for each in entries
        ]
    return "********" if isinstance(value, SecretStr) else value
