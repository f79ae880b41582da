"""`cap`: keep the head and the tail of what is too long for a model, in a pipe or as a hook's answer."""

import codecs
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from typing import Any, cast

import click

from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.tools.text.capping import MAX_TOKENS, cap_stream

READ_BYTES = 1 << 16
MAX_EVENT_BYTES = 64_000_000


@click.command()
@click.option("--max-tokens", default=MAX_TOKENS, show_default=True, type=click.IntRange(100, 1_000_000))
@click.option("--hook", is_flag=True, help="Read a PostToolUse event, and answer with the shortened output.")
@click.pass_obj
def cap(invocation: Invocation, max_tokens: int, hook: bool) -> None:
    """Keep the head and the tail of standard input where it has more than so many tokens.

    What is shorter passes to the byte. A line between head and tail says how much was left out. Input may be of any
    size: no more of it is held than what is printed.

    \b
    Examples:
      make test 2>&1 | swarm-memory cap
      curl -s https://example.org/page | swarm-memory cap --max-tokens 3000

    With --hook it is a command for PostToolUse of Claude Code, 2.1.121 or later; the manual has the entry.
    """
    if hook:
        _answer_hook(invocation, max_tokens)
        return
    out = sys.stdout.buffer
    for part in cap_stream(_decoded(), max_tokens):
        out.write(part.encode("utf-8", "surrogateescape"))
        out.flush()


def _decoded() -> Iterator[str]:
    """Yield standard input as text that gives the same bytes again, whatever they are."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    stream = cast("BufferedReader", sys.stdin.buffer)
    while read := stream.read1(READ_BYTES):
        yield decoder.decode(read)
    yield decoder.decode(b"", final=True)


def _answer_hook(invocation: Invocation, max_tokens: int) -> None:
    """Print the answer to an event where there is one; a fault of ours is noted and never reaches the host."""
    from swarm_memory.schema.errors import SwarmMemoryError
    from swarm_memory.server.hosts.claude_code.outputs import capped_output
    from swarm_memory.server.missed import note_missed
    from swarm_memory.server.switch import switched_off

    root = invocation.root
    try:
        event = _event()
        if switched_off(root) is None and (answer := capped_output(event, max_tokens)):
            click.echo(json.dumps(answer))
    except (SwarmMemoryError, ValueError, RecursionError) as error:
        with suppress(OSError):
            note_missed(root, "PostToolUse", f"the output was not shortened: {error}")


def _event() -> dict[str, Any]:
    told = sys.stdin.buffer.read(MAX_EVENT_BYTES + 1)
    if len(told) > MAX_EVENT_BYTES:
        raise ValueError(f"the event is larger than {MAX_EVENT_BYTES:,} bytes")
    event: Any = json.loads(told)
    if not isinstance(event, dict):
        raise ValueError("the event is not a JSON object")
    return cast("dict[str, Any]", event)


COMMANDS = {"cap": cap}
