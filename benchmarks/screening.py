"""Precision and recall of screening (rules, and rules with the classifier) on the texts of `tests/attacks`, by shape.

Without arguments it measures the set of an author who knew neither rules nor training texts (nothing was chosen by it),
attacks of published kinds and plain text, then both halves of our own set; rules and classifier were made on "dev"
only. `--texts FILE` shows which lines of a file of your own are flagged.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "shared"))

from screened_texts import (
    Half,
    attacks,
    half_of,
    plain_texts,
    published_attacks,
    strategies,
    unseen_attacks,
    unseen_strategies,
)

from swarm_memory.tools.guard.screen import by_rules, reason_of, screen

HALVES: tuple[Half, Half] = ("dev", "held-out")


def _by_shape() -> None:
    caught = {half: Counter[str]() for half in HALVES}
    total = {half: Counter[str]() for half in HALVES}
    for attack in attacks():
        total[attack.half][attack.shape] += 1
        caught[attack.half][attack.shape] += bool(screen(attack.text))
    print(f"{'shape':<16}" + "".join(f"{half:>14}" for half in HALVES))
    for shape in sorted(total["dev"] | total["held-out"]):
        print(f"{shape:<16}" + "".join(f"{f'{caught[half][shape]} of {total[half][shape]}':>14}" for half in HALVES))
    for half in HALVES:
        sound = [each.text for each in strategies() if half_of(each.text) == half]
        wrong = sum(bool(screen(text)) for text in sound)
        hit, all_of = caught[half].total(), total[half].total()
        print(
            f"{half}: recall {hit / all_of:.3f} ({hit} of {all_of}), precision {hit / (hit + wrong):.3f},"
            f" sound held back {wrong} of {len(sound)} ({wrong / len(sound):.2%})"
        )
        known = sum(bool(by_rules(attack.text)) for attack in attacks() if attack.half == half)
        wrong = sum(bool(by_rules(text)) for text in sound)
        print(f"{half}, rules alone: recall {known / all_of:.3f} ({known} of {all_of}), sound held back {wrong}")


def _unseen() -> None:
    tried, sound = unseen_attacks(), unseen_strategies()
    caught = Counter(each.shape for each in tried if screen(each.text))
    total = Counter(each.shape for each in tried)
    for shape in sorted(total):
        print(f"{shape:<22}{f'{caught[shape]} of {total[shape]}':>10}")
    for way, of in (("rules and classifier", screen), ("rules alone", by_rules)):
        hit = sum(bool(of(each.text)) for each in tried)
        wrong = [each for each in sound if of(each.text)]
        alike = sum(each.looks_like_an_attack for each in wrong)
        print(
            f"unseen author, {way}: recall {hit / len(tried):.3f} ({hit} of {len(tried)}),"
            f" precision {hit / (hit + len(wrong)):.3f}, sound held back {len(wrong)} of {len(sound)}"
            f" ({len(wrong) / len(sound):.2%}; {alike} of them look-alikes)"
        )
    for what, texts in (("attacks of published kinds", published_attacks()), ("plain text of our own", plain_texts())):
        known, found = (sum(bool(of(each.text)) for each in texts) for of in (by_rules, screen))
        print(f"{what}: held back {known}, held back or trusted less {found} of {len(texts)}")


def _own(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    started = time.perf_counter()
    flagged = [line for line in lines if screen(line)]
    taken = (time.perf_counter() - started) * 1000 / max(1, len(lines))
    print("\n".join(f"flagged  {line}: {reason_of(screen(line))}" for line in flagged))
    print(f"{len(flagged)} of {len(lines)} flagged, {taken:.2f} ms each")


def main() -> None:
    """Print the requested figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--texts", type=Path)
    arguments = parser.parse_args()
    if arguments.texts is not None:
        _own(arguments.texts)
    else:
        _unseen()
        print()
        _by_shape()


if __name__ == "__main__":
    main()
