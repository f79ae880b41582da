"""What an agent's message does, where it acts in plain text: commands in fences and tags, ReAct lines, named calls."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from swarm_memory.server.hosts.plain import words
from swarm_memory.server.hosts.records import JsonObject, as_list, as_object, as_text
from swarm_memory.tools.model.parse import json_in
from swarm_memory.tools.trajectory.shell import parse_command

Form = Literal["call", "edit", "fence", "react", "bare"]

MAX_ACTS = 50
"""Of one message; what comes after is prose."""

_MAX_MARKS = 4000
"""Of the lines of a text that open or close a part of it."""

_MAX_COMMAND_CHARS = 100_000
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,9}|~{3,9})[ \t]{0,4}([^\n`~]{0,200})$", re.MULTILINE)
_LABEL = re.compile(
    rf"^[ \t]{{0,8}}\*{{0,2}}({'|'.join(sorted(words.SAYS, key=len, reverse=True))})(?: (\d{{1,4}}))?\*{{0,2}}"
    r"[ \t]{0,8}:\*{0,2}[ \t]{0,40}",
    re.IGNORECASE | re.MULTILINE,
)
_BRACKETED = re.compile(r"([A-Za-z_][\w.-]{0,100})[\[(]")
_NAMED = re.compile(r"([A-Za-z_][\w.-]{0,100})[ \t]{0,8}(?=\{)")
_WORD = re.compile(r"[A-Za-z_][\w.-]{0,100}")
_THINK = re.compile(r"<(think|thinking|reasoning)>")
_CALL = re.compile(
    r"<function=(?P<function>[\w.-]{1,100})>|<invoke name=\"(?P<invoke>[\w.-]{1,100})\">"
    rf"|<(?P<tag>{'|'.join(sorted({*words.TAGS, *words.NESTED_TAGS, 'tool_call'}))})>"
)
_PARAMETER = re.compile(r"<parameter=([\w.-]{1,100})>|<parameter name=\"([\w.-]{1,100})\">")
_INNER_TAG = re.compile(r"<([a-z_]{1,60})>")
_END_ECHO = re.compile(rf"(?:cd \S{{1,300}} && )?(?:echo|printf) [\"']?(?:{'|'.join(sorted(words.END_MARKS))})\b")
_LINE_EDIT = re.compile(r"edit[ \t]{1,8}\d{1,9}:\d{1,9}[^\n]{0,100}\n")
_PROGRAM = re.compile(r"[a-z][\w./+-]{0,80}|[A-Za-z_]\w{0,80}=\S{0,200}")
_SHELL_WORD = re.compile(r"--?\w[\w=-]{0,80}|\||\|\||&&|>>?|<|2>&1")
_ARTICLES = frozenset({"the", "a", "an", "all", "this", "that", "it", "my", "your", "for", "and", "of", "if"})
"""What follows a verb that is the name of a program too: `find the bug`."""

_CLOSING_SIGNS = " \n\t<>/abcdefghijklmnopqrstuvwxyz_"
"""Of tags, which may be all that follows an action."""

_SENTENCE_END = re.compile(r"[a-z]{2}[.:?!]$|, ")


class Act(NamedTuple):
    """One call that an agent wrote: the tool and its arguments."""

    name: str
    arguments: JsonObject
    form: Form

    @property
    def file(self) -> str:
        """The file that an edit is of."""
        return as_text(self.arguments.get("file_path"))

    @property
    def is_answer(self) -> bool:
        """Whether it only gives the final answer."""
        return self.name.lower() == "finish" and "input" in self.arguments

    @property
    def ends_task(self) -> bool:
        """Whether it is the agent's word that it is done."""
        return self.name in words.ENDS


@dataclass(slots=True)
class Said:
    """A message taken apart."""

    prose: str
    thought: str = ""
    acts: list[Act] = field(default_factory=list[Act])


class Fence(NamedTuple):
    """A block between two lines of back-ticks."""

    start: int
    end: int
    info: str
    body: str

    @property
    def tool(self) -> str | None:
        """The tool that runs what stands in it; None where nothing does."""
        return words.FENCES.get(self.info.split(" ", 1)[0].strip("{}.").lower())


def fences(text: str) -> Iterator[Fence]:
    """Yield the fenced blocks of a text that are closed, in order."""
    opened: re.Match[str] | None = None
    for mark in itertools.islice(_FENCE.finditer(text), _MAX_MARKS):
        if opened is None:
            opened = mark
        elif mark[1][0] == opened[1][0] and len(mark[1]) >= len(opened[1]) and not mark[2].strip():
            yield Fence(opened.start(), mark.end(), opened[2].strip(), text[opened.end() + 1 : mark.start()])
            opened = None


def without_thinking(text: str) -> tuple[str, str]:
    """Split a text into what is said and what is thought between `<think>` tags; one that only ends began before."""
    opening = _THINK.search(text)
    if opening is None:
        thought, mark, said = text.partition("</think>")
        return (said.strip(), thought.strip()) if mark else (text, "")
    closing = f"</{opening[1]}>"
    end = text.find(closing, opening.end())
    if end < 0:
        return text, ""
    said = text[: opening.start()] + text[end + len(closing) :]
    return said.strip(), text[opening.end() : end].strip()


def tagged_acts(text: str) -> Said:
    """Read calls in tags: `<function=…>`, `<invoke name=…>`, `<tool_call>` with JSON, a tag around a command."""
    acts: list[Act] = []
    kept: list[str] = []
    position = 0
    for mark in _bounded(_CALL, text):
        if mark.start() < position:
            continue
        closing = f"</{mark['tag'] or mark.lastgroup}>"
        end = text.find(closing, mark.end())
        if end < 0 and mark["tag"]:
            continue
        end = len(text) if end < 0 else end
        act = _tagged_act(mark, text[mark.end() : end])
        if act is not None:
            kept.append(text[position : mark.start()])
            acts.append(act)
            position = end + len(closing)
    kept.append(text[position:])
    return Said("".join(kept).strip(), acts=acts)


def _tagged_act(mark: re.Match[str], body: str) -> Act | None:
    name = mark["tag"]
    if name is None:
        return Act(mark[mark.lastgroup or 0], _parameters(body), "call")
    if name == "tool_call":
        return _json_act(as_object(json_in(body.strip())))
    if name in words.TAGS:
        return command_act(body, words.TAGS[name], "call")
    found: JsonObject = {}
    for inner in _bounded(_INNER_TAG, body):
        end = body.find(f"</{inner[1]}>", inner.end())
        if end >= 0:
            found.setdefault(inner[1], body[inner.end() : end].strip("\n"))
    return Act(name, found, "call")


def _parameters(body: str) -> JsonObject:
    found: JsonObject = {}
    for mark, value in sections(_PARAMETER.finditer(body), body):
        found[mark[1] or mark[2]] = value.rpartition("</parameter>")[0].strip("\n") or value.strip()
    return found


def sections(marks: Iterable[re.Match[str]], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each mark of a text with what stands between it and the next one."""
    found = list(itertools.islice(marks, _MAX_MARKS))
    for mark, following in zip(found, [*found[1:], None], strict=False):
        yield mark, text[mark.end() : following.start() if following else len(text)]


def _bounded(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the first matches: each costs a search for its end."""
    return itertools.islice(pattern.finditer(text), MAX_ACTS)


def _json_act(told: JsonObject) -> Act | None:
    """Read a call as an object: a name, and arguments as an object or as JSON text."""
    name = next(filter(None, (as_text(told.get(key)) for key in ("name", "tool", "action", "tool_name"))), "")
    if not _WORD.fullmatch(name):
        return None
    keys = ("arguments", "args", "action_input", "parameters", "input")
    given = next((told[key] for key in keys if key in told), None)
    return _act(name, given, "call") if isinstance(given, str) else Act(name, as_object(given), "call")


def json_acts(text: str) -> Said:
    """Read a message that is one JSON object: a call, a command, or several commands typed into a terminal."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or text[:start].strip(" \n`json") or text[end + 1 :].strip(" \n`"):
        return Said(text)
    told = as_object(json_in(text[start : end + 1]))
    thought = "\n".join(filter(None, (as_text(told.get(key)) for key in words.THOUGHTS)))
    typed = [as_text(as_object(each).get("keystrokes")).strip("\n") for each in as_list(told.get("commands"))]
    acts: list[Act | None] = [command_act("\n".join(typed), words.SHELL, "call")]
    if told.get("task_complete") is True:
        acts.append(Act("task_complete", {}, "call"))
    if isinstance(told.get("command"), str):
        acts = [command_act(as_text(told["command"]), words.SHELL, "call")]
    elif "commands" not in told:
        acts = [_json_act(as_object(told.get("command")) or told)]
    found = [act for act in acts if act is not None]
    return Said("", thought, found) if found else Said(text)


def named_acts(text: str) -> Said:
    """Read calls as `name {"argument": …}`: the whole text, or its last lines."""
    stripped = text.strip()
    whole = _named_act(stripped)
    if whole is not None:
        return Said("", acts=[whole])
    lines = stripped.split("\n")
    acts: list[Act] = []
    while lines and len(acts) < MAX_ACTS and (act := _named_act(lines[-1].strip())) is not None:
        acts.append(act)
        lines.pop()
    return Said("\n".join(lines), acts=acts[::-1])


def _named_act(text: str) -> Act | None:
    mark = _NAMED.match(text)
    if mark is None or not text.endswith("}"):
        return None
    given = text[mark.end() :]
    told = as_object(json_in(given))
    return Act(mark[1], told, "call") if told or given.strip("{ }\n") == "" else None


def fenced_act(text: str) -> Said:
    """Read the one command in a fence of a message: the last of a shell, or of another runner that ends the message."""
    blocks = list(fences(text))
    of_shell = [block for block in blocks if block.tool == words.SHELL]
    chosen = next(reversed([block for block in of_shell if block.info] or of_shell), None)
    if blocks and blocks[-1].tool not in (words.SHELL, None) and not text[blocks[-1].end :].strip(_CLOSING_SIGNS):
        chosen = blocks[-1]
    act = command_act(chosen.body, chosen.tool, "fence") if chosen and chosen.tool else None
    if chosen is None or act is None:
        return Said(text)
    before, parts = labelled(f"{text[: chosen.start].rstrip()}\n{text[chosen.end :].lstrip()}".strip())
    prose = "\n".join([before, *(part.body for part in parts if part.kind != "thought")]).strip()
    return Said(prose, "\n".join(part.body for part in parts if part.kind == "thought" and part.body), [act])


def command_act(text: str, tool: str, form: Form) -> Act | None:
    """Return the call of a command; one that ends the task is a call of its own."""
    command = text.strip("\n").rstrip()
    if not command.strip() or len(command) > _MAX_COMMAND_CHARS:
        return None
    if tool != words.SHELL:
        return Act(tool, {words.ARGUMENT[tool]: command}, form)
    head = command.strip()
    word, _, rest = head.partition(" ")
    if _END_ECHO.match(head):
        return Act("submit", {"input": command}, form)
    if word in words.ENDS and "\n" not in head and not rest.startswith("-"):
        return Act(word, {"input": rest.strip()} if rest.strip() else {}, form)
    return Act(words.SHELL, {words.ARGUMENT[words.SHELL]: command}, "edit" if _LINE_EDIT.match(head) else form)


class Label(NamedTuple):
    """A part of a text behind a label such as `Action:`."""

    kind: str
    body: str
    given: str = ""
    """Of an action: what stands behind the label of its input."""


def labelled(text: str) -> tuple[str, list[Label]]:
    """Split a text at its ReAct labels: what stands before the first, and the parts in order."""
    found = list(sections(_LABEL.finditer(text), text))
    opening = text[: found[0][0].start()] if found else text
    parts: list[Label] = []
    for mark, body in found:
        part = Label(words.SAYS[mark[1].lower()], body.strip())
        if part.kind == "input" and parts and parts[-1].kind == "action":
            parts[-1] = parts[-1]._replace(given=part.body)
        else:
            parts.append(part)
    return opening.strip(), parts


def react_acts(text: str) -> Said:
    """Read the action lines of a message; what an agent writes as an observation of its own is left as prose."""
    opening, parts = labelled(text)
    said, thoughts, acts = [opening], list[str](), list[Act]()
    imagined = False
    for part in parts:
        imagined = imagined or part.kind == "observation"
        if imagined or part.kind == "answer":
            said.append(part.body)
        elif part.kind == "thought":
            thoughts.append(part.body)
        elif part.kind == "action" and len(acts) < MAX_ACTS:
            act = action(part.body, part.given)
            acts.extend([act] if act is not None else [])
    return Said("\n".join(filter(None, said)), "\n".join(thoughts), acts)


def action(body: str, given: str) -> Act | None:
    """Read what stands behind `Action:`: a call with its argument in brackets or apart, JSON, a fence, a command."""
    block = next(fences(body), None)
    if block is not None and given == "":
        word = body[: block.start].strip()
        told = as_object(json_in(block.body.strip()))
        if told:
            return _json_act(told) or _act(word or "tool", block.body, "react")
        if block.tool:
            return command_act(block.body, block.tool, "react")
    if body.startswith("{"):
        return _json_act(as_object(json_in(body)))
    if given:
        return _act(body.split("\n")[0].strip("`\"' ")[:200] or "tool", given, "react")
    line, command = body.split("\n", 1)[0], body.strip("`")
    if (bracketed := bracketed_act(body) or bracketed_act(line)) is not None:
        return bracketed
    if is_command(command):
        return command_act(command, words.SHELL, "react")
    return Act(line.strip()[:200], {"input": ""}, "react") if line.strip() else None


def bracketed_act(text: str) -> Act | None:
    """Read `name[argument]` or `name(argument)` where it is the whole text."""
    stripped = text.strip()
    mark = _BRACKETED.match(stripped)
    if mark is None or stripped[-1] not in "])":
        return None
    return _act(mark[1], stripped[mark.end() : -1], "react")


def _act(name: str, given: str, form: Form) -> Act | None:
    """Return the call of a tool by its name and one text: JSON gives the arguments, a runner takes a command."""
    told = as_object(json_in(given)) if given.lstrip().startswith("{") else {}
    if told or given.strip() == "{}":
        return Act(name, told, form)
    if name.lower() in words.RUNNERS:
        block = next(fences(given), None)
        found = command_act(block.body if block else given, words.SHELL, form)
        return found if found is None or found.name != words.SHELL else Act(name, found.arguments, form)
    return Act(name, {"input": given.strip()}, form)


def is_command(text: str) -> bool:
    """Tell whether a text is surely a command: it begins with a program that is known, or has options or a pipe."""
    line = text.strip().split("\n", 1)[0][:2000]
    first, second = [*line.split(" ", 2), ""][:2]
    if first in words.ENDS or first.startswith(("./", "/", "~/")):
        return True
    if not _PROGRAM.fullmatch(first) or second in _ARTICLES:
        return False
    return parse_command(line).purpose != "other" or any(_SHELL_WORD.fullmatch(word) for word in line.split(" ")[1:30])


def may_be_command(text: str) -> bool:
    """Tell whether a text may be a command line and is no sentence: what a shell answered was one."""
    line = text.strip().split("\n", 1)[0][:2000]
    first = line.split(" ", 1)[0]
    return is_command(text) or first == "#" or bool(_PROGRAM.fullmatch(first) and not _SENTENCE_END.search(line))
