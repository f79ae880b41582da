"""Regenerate tools/guard/data/*.json from the TOML files next to them, in which the rules are written by hand.

python scripts/write_rules.py
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import ConfigError
from swarm_memory.tools.guard.rules import COMMANDS, GENERAL, SCREENING, SECRETS, VALUES, Rule, Table

_FRAGMENT = re.compile(r"\{([a-z_]+)\}")
_LINE_BREAK = re.compile(r"\n\s*")


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
    """A file as it is written; rows by group and part. The hints of a row that is only a pattern are in `hints`."""

    fragments: dict[str, str] = Field(default_factory=dict)
    words: dict[str, frozenset[str]] = Field(default_factory=dict)
    hints: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """The hints of rows that are only patterns, by name."""
    rows: dict[str, dict[str, dict[str, _Row | str]]]


def read(path: Path) -> Table:
    """Return all rules of a TOML file. Raises `ConfigError` that names the row and says what is wrong with it."""
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
            raise ConfigError(f"{path}: {{{error.args[0]}}} is in a pattern and is no fragment") from error

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
                    pattern = rf"{literal}(?<![A-Za-zÀ-ɏ0-9_-]{literal}){row.then}{{end}}"
                    yield Rule(name, section, kind, (prefix,), whole(pattern), prefix)


def as_json(table: Table) -> str:
    """Return what the product reads, with one rule per line."""
    rules = ",\n".join(json.dumps(rule) for rule in table.rules)
    words = json.dumps({name: sorted(each) for name, each in table.words.items()})
    return f'{{"words": {words},\n"rules": [\n{rules}\n]}}\n'


def main() -> None:
    """Write all files."""
    for path in (SECRETS, VALUES, SCREENING, GENERAL, COMMANDS):
        path.write_text(as_json(read(path.with_suffix(".toml"))), "utf-8")


if __name__ == "__main__":
    main()
