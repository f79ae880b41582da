"""How a number of things is told: "1 memory", "2 memories". It knows English plurals and nothing else."""


def counted(number: int, noun: str) -> str:
    """Return the number, with separators of thousands, and its noun: `counted(1, "new memory")` is "1 new memory"."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun as it stands after the number."""
    if number == 1:
        return noun
    ends = noun.endswith("y") and noun[-2:-1] not in "aeiou"
    return f"{noun[:-1]}ies" if ends else f"{noun}s"
