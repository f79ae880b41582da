"""Converts public trajectories of agents that act in plain text to the messages with tool calls that the product reads.

Five forms of objects {id, task, steps: [{role, content}]} are known: `[tool_calls]` and JSON at the end of a content;
a tool's name and its arguments as JSON; one fenced command that the next message answers; SEARCH/REPLACE blocks whose
answer reports what was applied and how the harness's test script ended; and a ReAct log (Thought, Action, Observation).
Any other file is read as the product reads it.
"""

import gzip
import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories

Message: TypeAlias = dict[str, Any]

MARK = "[tool_calls]"
ROLES = ("system", "user", "assistant", "tool")
FENCE = re.compile(r"^```(?:bash|sh|shell|mswea_bash_command)?[ \t]*\n(.*?)\n```[ \t]*$", re.MULTILINE | re.DOTALL)
LABEL = re.compile(r"^(Thought|Action|Action Input|Observation|Final Answer)(?: \d{1,4})?:[ \t]*", re.MULTILINE)
CALL = re.compile(r"([A-Za-z_][\w.-]*)[\[(](.*)[\])]", re.DOTALL)
NAMED = re.compile(r"([a-z]\w*) (\{.*\})", re.DOTALL)
CODE = re.compile(r"\s*<(returncode|exit_code)>\s*(-?\d{1,10})\s*</\1>\s*")
BLOCK = re.compile(r"^<{5,9} SEARCH\n(?P<old>.*?)^={5,9}\n(?P<new>.*?)^>{5,9} REPLACE$", re.MULTILINE | re.DOTALL)
APPLIED = re.compile(r"^Applied edit to (\S.*)$", re.MULTILINE)
SCRIPT = re.compile(
    r"^Test Script: (?P<command>.+?);?\n(?P<output>.*?)^\[.*\] Return Code: (?P<code>\d+)$", re.M | re.S
)
TAGS = re.compile(r"\A\s*<output>\n?|\n?</output>\s*\Z")


def read_labelled(path: Path) -> Iterator[Trajectory]:
    """Yield the trajectories of a file. Raises `InputError` for an unknown format, as the product does."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    records = [record for line in lines if (record := _object(line)) is not None]
    if not any(isinstance(record.get("steps"), list) for record in records):
        yield from read_trajectories(path)
        return
    written = ({**record, "steps": list(with_calls(record.get("steps") or []))} for record in records)
    yield from read_trajectories(io.StringIO("\n".join(map(json.dumps, written))))


def _object(line: bytes) -> Message | None:
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def with_calls(steps: list[Message]) -> Iterator[Message]:
    """Yield the messages of a trajectory, with the agent's plain-text actions turned into tool calls."""
    if any(step.get("tool_calls") or step.get("kind") for step in steps):
        yield from steps
        return
    answered, of_edits = "", -1
    for number, (step, following) in enumerate(pairwise([*steps, {}])):
        text, role = str(step.get("content") or ""), step.get("role")
        commands = FENCE.findall(text) if role == "assistant" and following.get("role") in ("user", "tool") else []
        said, mark, calls = text.partition(MARK)
        if number == of_edits:
            pass  # it was yielded with the edits that it answers
        elif role not in ROLES:
            yield from _react(text)
        elif mark and (listed := _listed(calls)):
            yield {**step, "content": said, "tool_calls": listed}
        elif role == "assistant" and (named := _named(text)) is not None:
            answered = f"text-{number}"
            yield _acting("", answered, *named)
            continue
        elif role == "assistant" and (blocks := list(BLOCK.finditer(text))):
            yield {"role": "assistant", "content": BLOCK.sub("", text)}
            if following.get("role") == "tool":
                of_edits = number + 1
                yield from _edited(number, blocks, str(following.get("content") or ""))
        elif len(commands) == 1:
            answered = f"text-{number}"
            yield _acting(FENCE.sub("", text), answered, "bash", {"command": commands[0]})
            continue
        elif answered:
            code = CODE.search(text)
            output = TAGS.sub("", CODE.sub("", text))
            ended = {"exit_code": int(code[2])} if code else {}
            yield {"role": "tool", "tool_call_id": answered, "content": output, **ended}
        else:
            yield step
        answered = ""


def _listed(calls: str) -> list[Any]:
    try:
        found: Any = json.loads(calls)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _named(text: str) -> tuple[str, Message] | None:
    found = NAMED.fullmatch(text.strip())
    arguments = _object(found[2].encode()) if found else None
    return None if found is None or arguments is None else (found[1], arguments)


def _acting(said: str, call_id: str, name: str, arguments: Message) -> Message:
    call = {"id": call_id, "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": said.strip(), "tool_calls": [call]}


def _edited(number: int, blocks: list[re.Match[str]], answer: str) -> Iterator[Message]:
    """Yield a message's edits, one call for each applied block or one for a refused message, and the harness's tests.

    An answer names the files that blocks were applied to, in order. It does not report on each block, so a refused
    message becomes one call with the error.
    """
    applied = APPLIED.findall(answer)
    for place, path in enumerate(applied):
        block = blocks[min(place, len(blocks) - 1)]
        fields = {"file_path": path, "old_string": block["old"], "new_string": block["new"]}
        yield _acting("", f"edit-{number}-{place}", "Edit", fields)
        yield {"role": "tool", "tool_call_id": f"edit-{number}-{place}", "content": f"Applied edit to {path}"}
    if not applied:
        yield _acting("", f"edit-{number}", "Edit", {"old_string": blocks[0]["old"], "new_string": blocks[0]["new"]})
        yield {"role": "tool", "tool_call_id": f"edit-{number}", "content": answer, "is_error": True}
    if script := SCRIPT.search(answer):
        yield _acting("", f"test-{number}", "bash", {"command": script["command"]})
        output = {"content": script["output"], "exit_code": int(script["code"])}
        yield {"role": "tool", "tool_call_id": f"test-{number}", **output}


def _react(text: str) -> Iterator[Message]:
    """Yield the parts of a log. The text before its first label is the task, which the record already has."""
    marks = list(LABEL.finditer(text))
    name = ""
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        body = text[mark.end() : end].strip()
        bracketed = CALL.fullmatch(body)
        if mark[1] == "Thought":
            yield {"role": "assistant", "reasoning_content": body}
        elif mark[1] == "Observation":
            yield {"role": "tool", "content": body}
        elif mark[1] == "Final Answer" or (bracketed and bracketed[1].lower() == "finish"):
            yield {"role": "assistant", "content": bracketed[2] if bracketed else body}
        elif mark[1] == "Action Input":
            yield _acting("", f"text-{number}", name, {"input": body})
        elif bracketed:
            yield _acting("", f"text-{number}", bracketed[1], {"input": bracketed[2]})
        else:
            name = body
