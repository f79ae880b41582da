"""How a command, or a tool of a server, ended, where the text of its result alone says so."""

import re
from typing import NamedTuple

from swarm_memory.server.hosts.records import all_text, as_bool, as_code, as_list, as_object, as_text
from swarm_memory.tools.model.parse import json_in

_MAX_JSON_CHARS = 2_000_000
_MAX_LINE_CHARS = 400
_EXIT_LINE = re.compile(
    r"[\[(<]?(?:(?:the )?(?:command|process)(?: -?\d{1,9})? )?(?:(?:completed|finished|exited|failed|ended) )?"
    r"(?:with )?(?:(?:exit|return)[ _-]?(?:code|status)|(?<=exited with )code)[ \t]{0,3}[:=]?[ \t]{0,3}"
    r"(?P<code>-?\d{1,10})[.)\]>]{0,3}",
    re.IGNORECASE,
)
"""A whole line that gives the exit code."""

_LEAD = re.compile(r"\A\s{0,40}(?:command |tool |code )?output:[ \t]{0,40}\n?", re.IGNORECASE)
_CODE_KEYS = ("exit_code", "exitCode", "returncode")
_RESULT_KEYS = frozenset({*_CODE_KEYS, "stdout", "stderr", "output", "command", "duration", "status", "success"})


class Answer(NamedTuple):
    """What a call gave."""

    text: str
    """Without the words around an output."""
    exit_code: int | None = None
    is_error: bool | None = None


def read_answer(text: str) -> Answer:
    """Read JSON that gives an exit code or MCP's `isError`; else the exit code in the last or the first line."""
    if text.lstrip().startswith("{") and len(text) <= _MAX_JSON_CHARS:
        result = as_object(json_in(text))
        code = next((code for key in _CODE_KEYS if (code := as_code(result.get(key))) is not None), None)
        failed = as_bool(result.get("isError", result.get("is_error")))
        if code is not None or failed is not None:
            return Answer(_output_in(result) or text, code, failed)
    body = text.strip()
    before, _, last = body.rpartition("\n")
    first, _, after = body.partition("\n")
    for line, rest in ((last, before), (first, after)):
        ended = _EXIT_LINE.fullmatch(line.strip()) if len(line) <= _MAX_LINE_CHARS else None
        if ended is not None:
            return Answer(_LEAD.sub("", rest, count=1), int(ended["code"]))
    return Answer(text)


def _output_in(result: dict[str, object]) -> str:
    """Return what a result as JSON shows; empty where it holds more than an output."""
    if blocks := as_list(result.get("content")):
        return all_text(blocks)
    if not result.keys() <= _RESULT_KEYS:
        return ""
    return "\n".join(filter(None, (as_text(result.get(key)) for key in ("stdout", "output", "stderr"))))
