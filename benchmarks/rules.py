"""How often each rule of redaction and of screening fires on given data.

    python benchmarks/rules.py PATH…   files of text or JSON, also gzipped, and folders of them
    python benchmarks/rules.py         our own: lines of tests/shared, texts of tests/attacks and scripts/screening

Every string of JSON and every line of other text is checked once, on its own, and shown to nobody: the table says
where a rule fired first, and nothing about the text. A rule that never fires on any data that we have should go.
"""

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests" / "shared"))
sys.path.append(str(Path(__file__).parent.parent / "scripts" / "screening"))

from corpus import examples
from harmless_lines import FIXED, random_lines
from screened_texts import attacks, unseen_attacks, unseen_strategies
from secret_lines import context_lines, pem, rare_lines, vendor_lines

from swarm_memory.tools.guard.redact import find_personal_data, find_secrets
from swarm_memory.tools.guard.rules import SCREENING, SECRETS, table
from swarm_memory.tools.guard.screen import rules_that_fire

SEED, SEEDS = 1, 5
MAX_CHARS = 50_000

Texts = Iterator[tuple[str, str]]
"""The place where a text stands, and the text to check."""


def own_texts() -> Texts:
    """Yield the texts of our own tests and training."""
    for seed in range(SEEDS):
        yield from (("tests/shared", line) for _, _, line in vendor_lines(seed))
        yield from (("tests/shared", line) for _, line in context_lines(seed, times=1))
        yield from (("tests/shared", line) for _, line in rare_lines(seed))
        yield from (("tests/shared", line) for line in random_lines(seed, times=1))
        yield "tests/shared", pem(random.Random(seed))
    yield from (("tests/shared", line) for line in FIXED)
    yield from (("tests/attacks", each.text) for each in attacks())
    yield from (("tests/attacks", each.text) for each in (*unseen_attacks(), *unseen_strategies()))
    yield from (("scripts/screening", each.text) for each in examples(SEED, per_frame=12))


def texts_of(path: Path) -> Texts:
    """Yield the strings of a JSON file or the lines of any other file; for a folder, those of all its files."""
    if path.is_dir():
        for each in sorted(each for each in path.rglob("*") if each.is_file()):
            yield from texts_of(each)
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text = data.decode("utf-8", errors="replace")
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    parts = [text] if suffix == ".json" else text.splitlines()
    for part in parts:
        try:
            found = _strings(json.loads(part)) if suffix in (".json", ".jsonl") else iter([part])
        except ValueError:
            found = iter([part])
        yield from ((path.name, each) for each in found)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, field in value.items():
            yield from (*_strings(key), *_strings(field))
    elif isinstance(value, list):
        for each in value:
            yield from _strings(each)


def count(texts: Texts) -> tuple[Counter[str], dict[str, str], int]:
    """Return in how many texts each rule fired, where it first did, and how many different texts there were."""
    fired, first, seen = Counter[str](), dict[str, str](), set[int]()
    for place, text in texts:
        if hash(text) in seen:
            continue
        seen.add(hash(text))
        names = {span.rule for find in (find_secrets, find_personal_data) for span in find(text)}
        for at in range(0, len(text), MAX_CHARS):
            names |= {rule.name for rule, _ in rules_that_fire(text[at : at + MAX_CHARS])}
        fired.update(names)
        first |= {name: place for name in names if name not in first}
    return fired, first, len(seen)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    arguments = parser.parse_args()
    sources = [texts_of(path) for path in arguments.paths] or [own_texts()]
    fired, first, texts = count(each for source in sources for each in source)
    rows = dict.fromkeys((rule.section, rule.name) for path in (SECRETS, SCREENING) for rule in table(path).rules)
    print(f"{'rule':<42}{'section':<40}{'fired':>8}  first in")
    for section, name in rows:
        print(f"{name:<42}{section:<40}{fired[name]:>8}  {first.get(name, '')}")
    never = [name for _, name in rows if not fired[name]]
    print(f"{len(rows)} rules on {texts:,} texts; {len(never)} never fired: {', '.join(never) or 'none'}")


if __name__ == "__main__":
    main()
