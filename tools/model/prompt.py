"""Prompts from their Markdown files, strictly rendered, untrusted text fenced.

A file of `tools/model/prompts` has two parts, `# System` and `# User`. `{{name}}` stands for a value. Of untrusted text
nothing may be in the system part, and in the user part only between the two markers of its fence.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from swarm_memory.tools.text.cleaning import clean

FENCE = "fence"
"""The name that a prompt gets its fence by."""

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PARTS = re.compile(r"\A# System\n(.*?)^# User\n(.*)\Z", re.DOTALL | re.MULTILINE)
_HASH_CHARS, _FENCE_CHARS = 12, 16


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template as it is in its file."""

    name: str
    system: str
    user: str
    hash: str
    """The first 12 hex digits of the SHA-256 of the whole file, with line ends as `\\n`: its provenance."""


class Rendered(Prompt):
    """A prompt with its values in it, ready to be sent."""


@cache
def load_prompt(name: str) -> Prompt:
    """Read `tools/model/prompts/<name>.md`."""
    return parse_prompt(name, files("swarm_memory.tools.model.prompts").joinpath(f"{name}.md").read_text("utf-8"))


def parse_prompt(name: str, text: str) -> Prompt:
    """Take a template apart. Raises `ValueError` unless it is a `# System` part followed by a `# User` part."""
    text = text.replace("\r\n", "\n")
    parts = _PARTS.match(text)
    if parts is None:
        raise ValueError(f"prompt `{name}` must begin with a line `# System` and go on with one `# User`.")
    system, user = (part.strip() for part in parts.groups())
    return Prompt(name, system, user, hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS])


def render(prompt: Prompt, *, given: Mapping[str, str], untrusted: Mapping[str, str]) -> Rendered:
    """Put our own values and the fenced untrusted ones in, once: braces inside a value mean nothing.

    `{{fence}}` becomes the fence's name. Raises `ValueError` where the placeholders are not the names of the values,
    each of one value, and for untrusted text in the system part.
    """
    fence = fence_of(*untrusted.values())
    values = {FENCE: fence, **given, **{name: fenced(name, text, fence) for name, text in untrusted.items()}}
    in_system, in_user = (set(_PLACEHOLDER.findall(part)) for part in (prompt.system, prompt.user))
    fits = in_system | in_user | {FENCE} == set(values) and len(values) == 1 + len(given) + len(untrusted)
    if not fits or not in_system.isdisjoint(untrusted):
        raise ValueError(
            f"prompt `{prompt.name}` has {sorted(in_system)} in its system part and {sorted(in_user)} in its user part;"
            f" it is given {sorted(given)}, and {sorted(untrusted)} that may only be in its user part"
        )
    system, user = (_PLACEHOLDER.sub(lambda found: values[found[1]], part) for part in (prompt.system, prompt.user))
    return Rendered(prompt.name, system, user, prompt.hash)


def fence_of(*texts: str) -> str:
    """Return a marker that is in none of the texts: 16 hex digits, the same for the same texts.

    It is derived from all of them, so that no text can name it: changing a text changes the marker.
    """
    cleaned = [clean(text) for text in texts]
    whole = hashlib.sha256()
    for text in cleaned:
        whole.update(f"{len(text)}\n{text}".encode())
    haystack = "\n".join(cleaned).casefold()
    while (marker := whole.hexdigest()[:_FENCE_CHARS]) in haystack:
        whole.update(b"again")
    return marker


def fenced(name: str, text: str, fence: str) -> str:
    """Return the text, cleaned of invisible characters, between a line that opens the fence and one that closes it."""
    return f"<{name} {fence}>\n{clean(text)}\n</{name} {fence}>"
