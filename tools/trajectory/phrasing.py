"""How commands, errors and tasks are worded so that they may be stored: generalized, short, on one line, in quotes.

Tool output is untrusted: only a symptom is quoted from it, and never one that reads like an instruction.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.calls import Call

MAX_SYMPTOM, MAX_COMMAND = 120, 110

_PARTICULAR = re.compile(
    r'(?i)"(?:\w*_)?(?:first_?name|last_?name|user_?name|full_?name|customer|name|e?mail|phone|address\d?|street|zip|dob'
    r'|birth\w*|ids?|token|password|account|card|iban|ssn)"\s*:\s*("[^"\\]*"|\[[^][{}]*\])'
)
"""A JSON value whose field name marks it as belonging to one person, order or day."""

_TEXT = re.compile(r'"([^\s,"\\][^"\\]{2,79})"')
_MARKED = re.compile(r"[\d_@.-]")
"""A lowercase word without any of these characters is an ordinary word."""

_MAX_PARTICULARS, _MAX_JSON_CHARS = 400, 20_000
_MAX_LOOKED_AT = 2000
"""Characters read of a command: far more than is ever shown, so that the cut cannot leave half a secret to be shown."""

_INSTRUCTING = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override|instructions?|system prompt|you (?:must|should|are|need|have)|please"
    r"|assistant|curl|wget|execute|always|never|make sure|important|http)\b"
)
_MARKUP = re.compile(r"[`<>{}\[\]|*#]{2,}|[\x00-\x1f]+")
_LONG_NUMBER = re.compile(
    r"(?<![\w.])\d[\d,.:/-]{3,}(?![\w.])|\b(?![A-Z]{1,2}\d{3,5}\b)(?=\w*\d)(?=\w*[A-Za-z_])[\w-]*\d{3,}\w*\b"
)

_LEADING_CD = re.compile(r"^\s*(?:(?:cd|pushd)\s+(?:\"[^\"]*\"|'[^']*'|\S+)\s*(?:&&|;)\s*)+")
_TRAILING_PIPE = re.compile(r"\s*(?:2>&1|\|\s*(?:head|tail|less|cat|tee)\b[^|&;]*|2>\s*/dev/null)\s*$")


def general(text: str, particulars: Sequence[str] = ()) -> str:
    """Return `text` cleaned, redacted, and with what belongs to this one task replaced: paths, ids, hosts, names."""
    return generalize(redact(mask_names(clean(text), particulars)).text)


def mask_names(text: str, particulars: Sequence[str]) -> str:
    """Replace the particulars of the task, the longest first."""
    if not particulars:
        return text
    pattern = "|".join(re.escape(value) for value in sorted(set(particulars), key=len, reverse=True))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "…", text)


def show_command(text: str, particulars: Sequence[str] = (), limit: int = MAX_COMMAND) -> str:
    """Return a command line as it may be shown: without leading `cd`, trailing output filters and here-documents."""
    shown = _LEADING_CD.sub("", text[:_MAX_LOOKED_AT].split("<<")[0]).strip()
    while (shorter := _TRAILING_PIPE.sub("", shown)) != shown:
        shown = shorter
    return one_line(general(redact(shown).text, particulars), limit).replace("`", "'")


def folder_of(text: str) -> str:
    """Return the folder that a command line changes to first; empty when it does not."""
    found = re.match(r"\s*(?:cd|pushd)\s+(?:\"([^\"]*)\"|'([^']*)'|(\S+))", text)
    return next((part for part in found.groups() if part), "").rstrip("/;&") if found else ""


def show_call(call: Call, particulars: Sequence[str] = (), limit: int = MAX_COMMAND) -> str:
    """Return a call in words: the command line, or the tool and the file that it writes, if any."""
    if call.command is not None:
        return f"`{show_command(call.command.text, particulars, limit)}`"
    name = call.tool
    return f"`{name}` on `{show_file(call.file, particulars)}`" if call.writes and call.file else f"`{name}`"


def show_file(path: str, particulars: Sequence[str] = ()) -> str:
    """Return the last part of a path."""
    name = PurePosixPath(path.replace("\\", "/")).name
    return one_line(redact(mask_names(name, particulars)).text, 60).replace("`", "'")


def show_symptom(error: str, particulars: Sequence[str] = (), limit: int = MAX_SYMPTOM) -> str:
    """Return an error line as a quotation: at most `limit` characters, or empty when it reads like an instruction."""
    if _INSTRUCTING.search(error):
        return ""
    text = _MARKUP.sub(" ", re.sub(r"</?[a-z_]+>", " ", error))
    text = _LONG_NUMBER.sub("…", general(text, particulars)).replace("`", "'").replace('"', "'")
    return one_line(text.lstrip(" =>-:").rstrip(" =-:"), limit)


def particulars_of(calls: Iterable[Call]) -> tuple[str, ...]:
    """Return names, addresses and ids from this task's calls and JSON answers, which a memory must not contain."""
    found: dict[str, None] = {}
    for call in calls:
        answer = call.output[:_MAX_JSON_CHARS] if call.output.lstrip()[:1] in ("{", "[") else ""
        said = _PARTICULAR.findall(f"{json.dumps(dict(call.input), ensure_ascii=False)}\n{answer}")
        values = (each.strip() for each in _TEXT.findall(" ".join(said)))
        found.update(dict.fromkeys(each for each in values if not each.islower() or _MARKED.search(each)))
    return tuple(found)[:_MAX_PARTICULARS]
