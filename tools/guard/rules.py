"""The rules for redacting, screening and generalizing text.

They are written by hand in `data/*.toml` and read from the `data/*.json` that `scripts/write_rules.py` makes of them.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.tools.text.cleaning import lazy

MARKS = r"\[(?:secret:[a-z0-9-]{1,40}|email|card|iban|phone|ssn|person|place)\]"
"""The marks that replace what was redacted in a text."""

MARK = lazy(MARKS)
FILE_NAME = lazy(r"[\w+-]{1,80}(?:\.[\w-]{1,20}){0,3}\.[A-Za-z]\w{0,7}")
_DATA = Path(__file__).parent / "data"
SECRETS, SCREENING = _DATA / "secrets.json", _DATA / "screening.json"
VALUES, GENERAL, COMMANDS = _DATA / "values.json", _DATA / "general.json", _DATA / "commands.json"
"""What values look like, and how they are assigned to a name; what is specific to one machine or day; programs."""


class Rule(NamedTuple):
    """What one row of a file, or one prefix of a row, searches for."""

    name: str
    section: str
    """The table that the row is in: `vendors.cloud`, `new role.always`."""
    kind: str
    """What its findings are called."""
    hints: tuple[str, ...]
    """The pattern is searched for only in a text that has one of these; without hints, in every text."""
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
        self.sections: defaultdict[str, list[Rule]] = defaultdict(list)
        """The rules of each section, and of each group of them: `vendors` is all of `vendors.…`."""
        for rule in self.rules:
            self.sections[rule.section].append(rule)
            self.sections[rule.section.partition(".")[0]].append(rule)


def any_in(text: str, hints: Iterable[str]) -> bool:
    """Whether one of the hints is in a text."""
    for hint in hints:  # noqa: SIM110 - half the time of `any`, and this is asked hundreds of times a text
        if hint in text:
            return True
    return False


@cache
def compiled(rule: Rule) -> re.Pattern[str]:
    """Return the pattern of a rule, compiled at its first use. Raises `ConfigError` that names the rule."""
    try:
        return re.compile(rule.pattern)
    except re.error as error:
        raise ConfigError(f"the pattern of rule {rule.name} does not compile: {error}") from error


@cache
def table(path: Path) -> Table:
    """Return the rules of a file. Raises `ConfigError` where it cannot be read."""
    try:
        written: Any = json.loads(path.read_text(encoding="utf-8"))
        rules = [Rule(name, section, kind, tuple(hints), *how) for name, section, kind, hints, *how in written["rules"]]
        return Table(rules, {name: frozenset(words) for name, words in written["words"].items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): reinstall swarm-memory") from error
