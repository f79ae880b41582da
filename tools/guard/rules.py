"""The rules of redaction and of screening, which can be switched off, and of what is general.

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

_DATA = Path(__file__).parent / "data"
SECRETS, SCREENING = _DATA / "secrets.json", _DATA / "screening.json"
GENERAL = _DATA / "general.json"
"""What holds for one machine or day: it is no check, and no row of it can be switched off."""


class Rule(NamedTuple):
    """What is searched for by one row, or by one prefix of it."""

    name: str
    section: str
    """The table that it is in: `vendors.cloud`, `new role.always`."""
    kind: str
    """What its findings are called."""
    hints: tuple[str, ...]
    """Where none of them is in a text, the pattern is not searched for; none: it always is."""
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

    def hinted(self, text: str) -> list[Rule]:
        """Return the rules of which a hint is in a text."""
        return [rule for rule in self.rules if any_in(text, rule.hints)]


def any_in(text: str, hints: Iterable[str]) -> bool:
    """Whether one of the hints is in a text."""
    for hint in hints:  # noqa: SIM110 - half the time of `any`, and this is asked hundreds of times a text
        if hint in text:
            return True
    return False


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
        import difflib

        near = difflib.get_close_matches(unknown[0], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the rules are in {SECRETS.parent}"
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
    """Return all rules of a file. Raises `ConfigError` where it cannot be read."""
    try:
        written: Any = json.loads(path.read_text(encoding="utf-8"))
        rules = [Rule(name, section, kind, tuple(hints), *how) for name, section, kind, hints, *how in written["rules"]]
        return Table(rules, {name: frozenset(words) for name, words in written["words"].items()})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}): reinstall swarm-memory") from error
