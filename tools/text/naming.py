"""What a text names exactly: files, commands, options, identifiers. A text that names nothing may be about anything."""

import re

_CODE = re.compile(r"`([^`\n]{2,200})`")
_FILE = re.compile(
    r"(?<![\w@/.-])(?:(?:~|\.{1,2})?/)?(?:[\w.-]+/)*[A-Za-z_][\w-]+\.[A-Za-z]\w{0,5}(?![\w/])"
    r"|(?<![\w@/.-])(?:~|\.{1,2})?/?(?:[\w.-]+/){2,}[\w.-]*"
)
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w*_\w+\b|\b[a-z][a-z0-9]+[A-Z]\w*\b|(?<!\S)--[a-z][\w-]+")


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, in lower case: what stands in back-ticks, and the files and identifiers anywhere."""
    found = [*_CODE.findall(text), *_FILE.findall(text), *_IDENTIFIER.findall(text)]
    return frozenset(name.strip().lower().removeprefix("./") for name in found if name.strip())


def shares_a_name(text: str, other: str) -> bool:
    """Whether one of two texts says a name of the other."""
    one, two = text.lower(), other.lower()
    return any(name in two for name in names_in(text)) or any(name in one for name in names_in(other))
