"""What a text names exactly: what is in back-ticks, files, identifiers, scripts and packages."""

import re
from collections.abc import Iterator

_SPAN = re.compile(r"`([^`\n]{2,300})`")
_PATH = re.compile(r"(?<![\w@/.:~$%*-])((?:(?:~|\.{0,2})/)?(?:[\w.@+-]+/)*[\w.@+-]+/?)(?![\w/*])")
_IS_PATH = re.compile(r"(?=.*[A-Za-z])(?!\w\.\w$)(?:.*/.*|[\w.@+-]*[A-Za-z_][\w@+-]*\.[A-Za-z]\w{0,7}|\.[a-z][\w.-]+)")
_MAX_PATH = 200
_IDENTIFIER = re.compile(r"\b[A-Za-z]\w*_\w+\b|\b[a-z][a-z0-9]+[A-Z]\w*\b|(?<!\S)--[a-z][\w-]+")
_SCRIPT = re.compile(r"\b(?:(?:npm|pnpm|yarn|bun) run|make|just|task|poe) [A-Za-z][\w:-]*(?:\.[\w:-]+)*")
_PACKAGE = re.compile(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?")


def spans(text: str) -> list[str]:
    """Return what stands between back-ticks, each once."""
    return list(dict.fromkeys(span.strip() for span in _SPAN.findall(text)))


def is_path(text: str) -> bool:
    """Whether a word looks like the path of a file or a folder: it has a slash, or an ending ("e.g" is none)."""
    return _IS_PATH.fullmatch(text) is not None


def paths_in(text: str) -> Iterator[str]:
    """Yield what looks like a path, as it is written but for a `./` before it; of an address nothing."""
    for path in _PATH.findall(text):
        plain = path.removeprefix("./").rstrip(".")
        if is_path(plain) and len(plain) <= _MAX_PATH:
            yield plain


def scripts_in(text: str) -> list[str]:
    """Return the targets of runners that a text names: `make check`, `npm run build`."""
    return _SCRIPT.findall(text)


def packages_in(text: str) -> Iterator[str]:
    """Yield what may be a package's name within back-ticks: words of prose are packages too."""
    for name in _PACKAGE.findall("\n".join(spans(text))):
        yield from (name.rstrip("."), name.split(".")[0])


def names_in(text: str) -> frozenset[str]:
    """Return the names in a text, in lower case: what is in back-ticks, and the files and identifiers anywhere.

    "and/or" is none: a path without an ending has two slashes at least. A text that names nothing may be about
    anything.
    """
    paths = (path for path in paths_in(text) if "/" in path or "@" not in path)
    files = (path for path in paths if "." in path.rpartition("/")[2].strip(".") or path.count("/") > 1)
    return frozenset(name.lower() for name in (*spans(text), *files, *_IDENTIFIER.findall(text)) if name)


def shares_a_name(text: str, other: str) -> bool:
    """Whether one of two texts says a name of the other."""
    one, two = text.lower(), other.lower()
    return any(name in two for name in names_in(text)) or any(name in one for name in names_in(other))
