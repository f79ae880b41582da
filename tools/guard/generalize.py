"""Generalize a strategy: replace what is specific to one machine or day."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, cast

from swarm_memory.tools.guard.rules import FILE_NAME, GENERAL, MARK, compiled, table
from swarm_memory.tools.text.cleaning import lazy

if TYPE_CHECKING:
    from pydantic import JsonValue

_METHOD = lazy(r"\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)[ `\"']{1,3}$")
"""The HTTP method before a path: such a path is a route of a service, not a path on a machine."""

_OF_MACHINES = frozenset({"home", "users", "root", "mnt", "media", "volumes", "private", "tmp", "var", "srv"})
"""How paths to folders of people and of one machine begin; they are those even after a method."""


def generalize(text: str) -> str:
    """Replace what is specific to one machine or day by `<path>`, `<url>`, `<host>`, `<user>`, `<id>` ….

    Relative paths, commands, versions, file names and system paths stay: they carry the strategy. A path in somebody's
    folders keeps its file name. The text must be redacted. Linear, and doing it twice changes nothing.
    """
    parts: list[str] = []
    position = 0
    for mark in MARK.finditer(text):
        parts += (_generalized(text[position : mark.start()]), mark[0])
        position = mark.end()
    parts.append(_generalized(text[position:]))
    return "".join(parts)


def without_places(value: "JsonValue") -> "JsonValue":
    """Replace internet addresses, hosts, paths in somebody's folders and UUIDs in every text of a value; keys stay.

    Linear, and doing it twice changes nothing.
    """
    return with_texts(value, lambda text: _generalized(text, "general.place"))


_MAX_DEPTH = 20


def with_texts(
    value: "JsonValue", change: Callable[[str], str], name: Callable[[str], str] = str, depth: int = _MAX_DEPTH
) -> "JsonValue":
    """Return a JSON value with `change` applied to each text, and `name` to each key; None for what is too deep."""
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, Mapping | list):
        return value
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        named, times = cast("dict[str, JsonValue]", {}), Counter[str]()
        for key, part in cast("Mapping[str, JsonValue]", value).items():
            times[own := name(key)] += 1  # several keys may get one name, as two addresses one mark
            while (numbered := own if times[own] == 1 else f"{own} {times[own]}") in named:
                times[own] += 1
            named[numbered] = with_texts(part, change, name, depth - 1)
        return named
    return [with_texts(part, change, name, depth - 1) for part in value]


def _generalized(text: str, section: str = "general") -> str:
    for rule in table(GENERAL).sections[section]:
        # For most rows a match becomes the placeholder that the row's name begins with.
        placeholder = f"<{rule.name.partition('-')[0]}>"
        text = compiled(rule).sub(_REPLACE.get(rule.name) or partial(_placed, placeholder), text)
    return text


def _placed(placeholder: str, match: re.Match[str]) -> str:
    return "".join((*match.groups(), placeholder))


def _posix(match: re.Match[str]) -> str:
    path = match[0]
    parts = path.strip("/").split("/")
    is_behind_method = _METHOD.search(match.string, max(0, match.start() - 10), match.start())
    is_route = is_behind_method and parts[0].lower() not in _OF_MACHINES
    is_common = path.startswith("/") and (is_route or len(parts) < 2 or parts[0] in table(GENERAL).words["system"])
    return path if is_common else _shortened(path)


def _shortened(path: str) -> str:
    """Return the placeholder for a path, with the name of the file where there is one."""
    stripped = path.rstrip("./")
    name = stripped.rpartition("/")[2]
    trailing = path[len(stripped) :].strip("/")
    is_file = "/" in stripped.strip("/") and FILE_NAME.fullmatch(name) is not None
    return ("<path>/" + name if is_file else "<path>") + trailing


def _host(match: re.Match[str]) -> str:
    if match[2].lower().removeprefix("www.") in table(GENERAL).words["public_hosts"]:
        return match[0] if match[1] in (None, "git") else match[0].replace(match[1] + "@", "<user>@")
    return "<host>" if match[1] is None else "<user>@<host>"


_REPLACE: Mapping[str, Callable[[re.Match[str]], str]] = {
    "windows": lambda match: _shortened(match[0].replace("\\", "/")),
    "posix": _posix,
    "host": _host,
}
"""How the matches of these rows are replaced."""
