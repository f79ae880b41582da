"""The tables of rules: what they may contain, what each row is for, that it is linear, and that it can be disabled."""

import importlib
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import write_rules
from screened_texts import attacks, unseen_attacks, unseen_strategies
from secret_lines import context_lines, rare_lines, vendor_lines

from swarm_memory.schema.errors import ConfigError
from swarm_memory.tools.guard.redact import find_personal_data
from swarm_memory.tools.guard.rules import COMMANDS, GENERAL, SCREENING, SECRETS, VALUES, Rule, compiled, table
from swarm_memory.tools.guard.screen import readings
from swarm_memory.tools.guard.secrets import any_in, find_secrets
from swarm_memory.tools.trajectory.hazards import is_hazardous

PARSE: Any = importlib.import_module("re._parser").parse
"""Parses a pattern into a tree, for which the standard library has no public function."""

RULES = [rule for path in (SECRETS, SCREENING, GENERAL) for rule in table(path).rules]


def test_no_name_stands_twice_in_both_tables() -> None:
    names = [{rule.name for rule in table(path).rules} for path in (SECRETS, SCREENING)]
    assert names[0].isdisjoint(names[1])
    assert all(re.fullmatch(r"[a-z0-9-]+", rule.name) for rule in RULES)


@pytest.mark.parametrize("path", [SECRETS, VALUES, SCREENING, GENERAL, COMMANDS])
def test_what_is_read_is_what_was_written(path: Path) -> None:
    as_written = write_rules.read(path.with_suffix(".toml"))
    assert path.read_text("utf-8") == write_rules.as_json(as_written), "run scripts/write_rules.py"
    assert (table(path).rules, table(path).words) == (as_written.rules, as_written.words)


@pytest.mark.parametrize("text", ["", "{}", '{"rules": [["a", "b"]], "words": {}}', "[]"])
def test_a_damaged_file_of_rules_is_named(tmp_path: Path, text: str) -> None:
    (path := tmp_path / "rules.json").write_text(text)
    with pytest.raises(ConfigError, match=r"rules\.json cannot be read"):
        table(path)


def test_each_rule_of_secrets_fires_on_a_line_that_is_made_for_it() -> None:
    lines = [line for seed in range(3) for _, _, line in vendor_lines(seed)]
    lines += [line for _, line in (*context_lines(1, times=1), *rare_lines(1))]
    lines.append("phone: 4155550123, 536-22-8726")
    lines.append("ada@acme.org, +49 170 1234567, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00")
    fired = {span.rule for line in lines for span in (*find_secrets(line), *find_personal_data(line))}
    assert {rule.name for rule in table(SECRETS).rules} - fired == set()
    assert all(rule in {span.rule for span in find_secrets(line)} for rule, line in rare_lines(2))


GOOD = 'npm = { prefixes = ["npm_"], then = "[a-z]{36}" }'


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ('npm = { prefix = ["npm_"], then = "[a-z]" }', r"vendors\.code\.npm\.prefix: Extra inputs"),
        ('npm = { pattern = "npm_[a-z]" }', r"vendors\.code\.npm: .*hints"),
        ('npm = { prefixes = ["npm_"] }', r"vendors\.code\.npm: .*then"),
        ("npm = 7", r"vendors\.code\.npm"),
        (f"{GOOD}\n{GOOD}", r"cannot be read: Cannot overwrite a value"),
        (f"{GOOD}\n[vendors.other]\n{GOOD}", r"npm stands twice"),
        ('npm = "npm_{nothing}"', r"\{nothing\} .* is no fragment"),
        ("npm = [", r"cannot be read"),
    ],
)
def test_a_wrong_row_is_named_with_what_is_wrong(tmp_path: Path, rows: str, said: str) -> None:
    (path := tmp_path / "rules.toml").write_text(f"[fragments]\nend = '$'\n[vendors.code]\n{rows}\n")
    with pytest.raises(ConfigError, match=said):
        write_rules.read(path)


def test_a_pattern_that_does_not_compile_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "rules.toml").write_text("['new role'.always]\nyou-are = '(you are'\n")
    (rule,) = write_rules.read(path).rules
    with pytest.raises(ConfigError, match="you-are does not compile"):
        compiled(rule)


def test_no_hint_hides_what_a_pattern_of_screening_finds() -> None:
    views = [view for each in (*attacks(), *unseen_attacks(), *unseen_strategies()) for view in readings(each.text)]
    known = table(SCREENING)
    assert not [r.name for r in known.rules for view in views if not any_in(view, r.hints) and compiled(r).search(view)]
    assert all(rule.hints for rule in known.rules), "a rule without hints is never searched for"


def test_every_pattern_compiles_and_no_rule_fires_on_nothing_or_a_vendors_on_less_than_is_looked_at() -> None:
    assert not [rule.name for rule in RULES if compiled(rule).search("")]
    assert min(PARSE(rule.pattern).getwidth()[0] for rule in table(SECRETS).sections["vendors"]) >= 14


SMALL, LARGE = 2_000, 8_000
FAST_S = 0.01
"""A search that takes less for the large text is not examined: a quadratic search takes ten times that."""


def test_each_pattern_is_linear_on_text_that_nearly_matches() -> None:
    """Texts are made from each pattern itself: repeated, and cut off at each third."""
    slow = {rule.name: unit for rule in RULES for unit in units_of(rule) if grows(rule, unit) > 4**1.5}
    assert not slow
    assert grows(Rule("quadratic", "", "", (), "[a-z]*="), "a") > 4**1.5


def test_no_note_of_pieces_of_what_a_command_does_takes_long() -> None:
    for rule in {rule.pattern: rule for rule in table(COMMANDS).rules}.values():
        pieces = dict.fromkeys(re.findall(r"-?[a-z]{2,}|-[a-zA-Z]|[@`/$]", rule.pattern))
        units = [f"{dash}{piece}{end}" for piece in pieces for dash in ("", "-") for end in ("", " ")]
        texts = [unit * (3_900 // len(unit)) + "!" for unit in ("a ", *units, *filter(None, units_of(rule)))]
        slowest = max((head + text for text in texts for head in ("", "install ")), key=lambda text: took(rule, text))
        started = time.process_time()
        is_hazardous(f"Run `{rule.name} {slowest}`.")
        assert max(took(rule, slowest), time.process_time() - started) < 0.5, (rule.name, slowest[:40])


def units_of(rule: Rule) -> Iterator[str]:
    """Yield texts to repeat: text that matches, the same without its end, only its beginning, and hints."""
    for longest in (2, 40):
        text = "".join(matching(PARSE(rule.pattern), longest, random.Random(1)))
        yield from dict.fromkeys((text, text[: len(text) * 2 // 3], text[: len(text) // 3], text[:1]))
    yield from (hint.lower() for hint in rule.hints)
    yield from rule.hints


def matching(nodes: Any, longest: int, draw: random.Random) -> Iterator[str]:
    """Yield the parts of a text that a pattern nearly matches: assertions about its surroundings are ignored."""
    for code, value in nodes:
        match str(code):
            case "LITERAL":
                yield chr(value)
            case "IN":
                yield one_of(*value[0])
            case "ANY" | "NOT_LITERAL":
                yield "a"
            case "BRANCH":
                yield from matching(draw.choice(value[1]), longest, draw)
            case "SUBPATTERN" | "ATOMIC_GROUP":
                yield from matching(value[3] if str(code) == "SUBPATTERN" else value, longest, draw)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = value
                for _ in range(max(least, min(most, longest))):
                    yield from matching(inner, longest, draw)
            case _:
                pass


def one_of(code: object, value: Any) -> str:
    """Return a character of a class, by its first member; a letter if the class is negated."""
    if str(code) in ("NEGATE", "CATEGORY"):
        return {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " "}.get(str(value), "a")
    return chr(value if str(code) == "LITERAL" else value[0])


def grows(rule: Rule, unit: str) -> float:
    """Return how much longer a search of four times the text takes, by the fastest of three; 0 if it is fast."""
    if not unit or took(rule, unit * (LARGE // len(unit) + 1)) < FAST_S:
        return 0
    small, large = (min(took(rule, unit * (size // len(unit) + 1)) for _ in range(3)) for size in (SMALL, LARGE))
    return 0 if large < FAST_S else large / small


def took(rule: Rule, text: str) -> float:
    """Return the processor time of a search."""
    started = time.process_time()
    for _ in compiled(rule).finditer(text):
        pass
    return time.process_time() - started
