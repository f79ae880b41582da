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

_PATH = lazy(r"(?<![\w./@:~-])(?:\./)?([\w@.+-]+(?:/[\w@.+-]+)*)/?(?![\w/])")
_SCRIPT = lazy(r"\b(?:((?:npm|pnpm|yarn|bun) run|make|just|task|poe) ([A-Za-z][\w:.-]*))")
_CODE = lazy(r"`([^`\n]{1,200})`")
_PACKAGE = lazy(r"@?[A-Za-z][\w.-]*(?:/[\w.-]+)?")
_VERSION = lazy(r"(?<![\w./-])(@?[A-Za-z][\w./-]{0,60}?)(?:\s+v?(?:ersion\s+)?|\s*[=>~]=\s*|@[\^~]?)(\d+(?:\.\d+)*)\b")
_BRANCH = lazy(r"\b(?:branch|checkout|switch|merge|rebase)\s+`?(?:origin/)?(\w[\w./-]*)|\borigin/(\w[\w./-]*)")


def anchors_of(item: "MemoryItem", project: "Project") -> list[str]:
    """Return what a memory's title and content name that is in the project now; of a way out what it says to do.

    What failed, and what did not help, may be there still when what ended the error is gone.
    """
    text = (item.use == "way_out" and "\n".join(item.actions)) or item.advice
    return list(islice((anchor for anchor in dict.fromkeys(_named(text)) if project.has(anchor)), MOST))


def _named(text: str) -> Iterator[str]:
    """Yield all that may be one; most of it is not. Of packages only what stands within code."""
    for path in _PATH.findall(text):
        name = path.rstrip(".")
        if ("/" in name or "." in name) and len(name) <= 200 and ".." not in name.split("/"):
            yield f"file:{name}"
    yield from (f"script:{runner} {name.rstrip('.:')}" for runner, name in _SCRIPT.findall(text))
    for name in _PACKAGE.findall("\n".join(_CODE.findall(text))):
        yield from (f"package:{name.rstrip('.')}", f"package:{name.split('.')[0]}")
    yield from (f"version:{name.lower()} {number}" for name, number in _VERSION.findall(text))
    yield from (f"branch:{(named or remote).rstrip('./')}" for named, remote in _BRANCH.findall(text))
