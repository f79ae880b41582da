"""What of a project a memory names: files, scripts, packages, versions and branches that are there when it is made.

Only what is there then is noted. A memory may name what is yet to be made, or is an example; but what was there and is
gone has changed since.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from swarm_memory.tools.text.patterns import lazy

if TYPE_CHECKING:
    from swarm_memory.schema.memory import MemoryItem
    from swarm_memory.tools.ports.store import Project

MOST = 20
"""So many anchors are noted of one memory."""

_WORD_CHARS = 200

_PATH = lazy(r"(?<![\w./@:~-])(?:\./)?([\w@.+-]+(?:/[\w@.+-]+)*)/?(?![\w/])")
_NAMED_FILE = lazy(r"[/.]")
_SCRIPT = lazy(r"\b(?:((?:npm|pnpm|yarn|bun) run|make|just|task|poe) ([A-Za-z][\w:.-]*))")
_CODE = lazy(r"`([^`\n]{1,200})`")
_IMPORT = lazy(r"\b(?:import|from|require\(|use)\s*['\"]?(@?[A-Za-z][\w./-]*)")
_PACKAGE = lazy(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?")
_VERSION = lazy(r"(?<![\w./-])(@?[A-Za-z][\w./-]{0,60}?)(?:\s+v?(?:ersion\s+)?|\s*[=>~]=\s*|@[\^~]?)(\d+(?:\.\d+)*)\b")
_BRANCH = lazy(r"\b(?:branch|checkout|switch|merge|rebase)\s+`?(?:origin/)?(\w[\w./-]*)|\borigin/(\w[\w./-]*)")


def anchors_of(item: "MemoryItem", project: "Project") -> list[str]:
    """Return what a memory's title and content name that is in the project now; of a way out what it says to do.

    What failed, and what did not help, may be there still when what ended the error is gone.
    """
    text = (item.use == "way_out" and "\n".join(item.deeds)) or item.advice
    return list(islice((anchor for anchor in dict.fromkeys(_named(text)) if project.has(anchor)), MOST))


def _named(text: str) -> Iterator[str]:
    """Yield all that may be one; most of it is not."""
    for match in _PATH.finditer(text):
        name = match[1].rstrip(".")
        if _NAMED_FILE.search(name) and len(name) <= _WORD_CHARS and ".." not in name.split("/"):
            yield f"file:{name}"
    for match in _SCRIPT.finditer(text):
        yield f"script:{match[1]} {match[2].rstrip('.:')}"
    for name in _packages(text):
        yield f"package:{name}"
    for match in _VERSION.finditer(text):
        yield f"version:{match[1].lower()} {match[2]}"
    for match in _BRANCH.finditer(text):
        yield f"branch:{(match[1] or match[2]).rstrip('./')}"


def _packages(text: str) -> Iterator[str]:
    """Yield what may be the name of a package: within code, or imported. Many are words of English too."""
    named = [match[1] for match in _IMPORT.finditer(text)]
    named += (word[0] for code in _CODE.finditer(text) for word in _PACKAGE.finditer(code[1]))
    for name in named:
        yield name.rstrip(".")
        yield name.split(".")[0]
