"""The rules of redaction and of screening, which can be switched off, and of what is general: rows of `data/*.toml`."""

import difflib
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError, model_validator

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import ConfigError

_DATA = Path(__file__).parent / "data"
SECRETS, SCREENING = _DATA / "secrets.toml", _DATA / "screening.toml"
GENERAL = _DATA / "general.toml"
"""What holds for one machine or day: it is no check, and no row of it can be switched off."""

_FRAGMENT = re.compile(r"\{([a-z_]+)\}")
_LINE_BREAK = re.compile(r"\n\s*")


class Rule(NamedTuple):
    """What is searched for by one row, or by one prefix of it."""

    name: str
    section: str
    """The table that it stands in: `vendors.cloud`, `new role.always`."""
    kind: str
    """What its findings are called."""
    hints: tuple[str, ...]
    """Where none of them stands in a text, the pattern is not searched for; none: it always is."""
    pattern: str
    prefix: str = ""
    """The literal that the pattern begins with, where there is one."""


class Span(NamedTuple):
    """The half-open range `start` … `end` of a text, the mark that takes its place, and the rule that found it."""

    start: int
    end: int
    mark: str
    rule: str


class Table:
    """The rules of one file, in its order, and its lists of words."""

    def __init__(self, rules: Iterable[Rule], words: Mapping[str, frozenset[str]]) -> None:
        self.rules, self.words = tuple(rules), words
        self.hints = tuple(dict.fromkeys(hint for rule in self.rules for hint in rule.hints))
        self.sections: defaultdict[str, list[Rule]] = defaultdict(list)
        """The rules of each section, and of each group of them: `vendors` is all of `vendors.…`."""
        for rule in self.rules:
            self.sections[rule.section].append(rule)
            self.sections[rule.section.partition(".")[0]].append(rule)


class _Row(Model):
    """A row as it is written."""

    kind: str = ""
    hints: tuple[str, ...] = ()
    pattern: str = ""
    prefixes: tuple[str, ...] = ()
    then: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> "_Row":
        if bool(self.pattern) == bool(self.prefixes) or bool(self.then) != bool(self.prefixes):
            raise ValueError("a row has either a pattern, or prefixes and what follows them (then)")
        if self.pattern and not self.hints:
            raise ValueError("a row with a pattern has hints: without any, every text would be searched for it")
        return self


class _File(Model):
    """A file as it is written; rows by group and part. A row that is only a pattern has its hints apart, or none."""

    fragments: dict[str, str] = Field(default_factory=dict)
    words: dict[str, frozenset[str]] = Field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Of the rows that are only patterns, by name."""
    rows: dict[str, dict[str, dict[str, _Row | str]]]


_off: set[str] = set()
"""The rows that are left out: only the user's own settings say so, and they hold for the whole process."""


@cache
def table(path: Path) -> Table:
    """Return the rules of `SECRETS` or `SCREENING` that are switched on. Raises `ConfigError`."""
    whole = read_table(path)
    return Table((rule for rule in whole.rules if rule.name not in _off), whole.words)


def switch_off(names: Iterable[str]) -> None:
    """Leave these rows out in this process from now on, and no others. Raises `ConfigError` for a name of no row."""
    wanted = set(names)
    if wanted == _off:
        return
    known = {rule.name for path in (SECRETS, SCREENING) for rule in read_table(path).rules}
    if unknown := sorted(wanted - known):
        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the rules stand in {SECRETS.parent}"
        raise ConfigError(f"guard.disabled_rules names {unknown[0]!r}, which is no rule: {hint}")
    _off.clear()
    _off.update(wanted)
    table.cache_clear()


@cache
def compiled(rule: Rule) -> re.Pattern[str]:
    """Return the pattern of a rule, compiled when it is first asked for. Raises `ConfigError` that names the rule."""
    try:
        return re.compile(rule.pattern)
    except re.error as error:
        raise ConfigError(f"the pattern of the rule {rule.name} does not compile: {error}") from error


def read_table(path: Path) -> Table:
    """Return all rules of a file. Raises `ConfigError` that names the row and says what is wrong with it."""
    try:
        written: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        apart = {key: written.pop(key) for key in ("fragments", "words", "hints") if key in written}
        file = _File.model_validate({**apart, "rows": written})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part != "rows" and "_Row" not in str(part))
        raise ConfigError(f"{path}: {where}: {first['msg']}") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    count = Counter(name for parts in file.rows.values() for rows in parts.values() for name in rows)
    if twice := [name for name, times in count.items() if times > 1]:
        raise ConfigError(f"{path}: the name {twice[0]} stands twice")
    if stray := file.hints.keys() - count:
        raise ConfigError(f"{path}: hints for {min(stray)}, which is no row")
    return Table(_rules_of(file, path), file.words)


def _rules_of(file: _File, path: Path) -> Iterator[Rule]:
    fragments: dict[str, str] = {}

    def whole(pattern: str) -> str:
        try:
            return _FRAGMENT.sub(lambda match: fragments[match[1]], _LINE_BREAK.sub("", pattern))
        except KeyError as error:
            raise ConfigError(f"{path}: {{{error.args[0]}}} stands in a pattern and is no fragment") from error

    for name, text in file.fragments.items():
        fragments[name] = whole(text)
    for group, parts in file.rows.items():
        for part, rows in parts.items():
            for name, row in rows.items():
                section = f"{group}.{part}"
                if isinstance(row, str):
                    yield Rule(name, section, group, file.hints.get(name, ()), whole(row))
                    continue
                kind = row.kind or name
                if row.pattern:
                    yield Rule(name, section, kind, row.hints, whole(row.pattern))
                for prefix in row.prefixes:
                    # A pattern that begins with its literal is found many times faster than one that looks behind.
                    literal = re.escape(prefix)
                    pattern = rf"{literal}(?<![A-Za-z0-9_-]{literal}){row.then}{{end}}"
                    yield Rule(name, section, kind, (prefix,), whole(pattern), prefix)
