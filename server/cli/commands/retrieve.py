"""`retrieve` and `pre-task`: what the bank has for a task."""

import click

from swarm_memory.schema.memory import Retrieval
from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation


@click.command()
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 50), help="How many at most; 3 by default.")
@click.option("--domain", help="Only of this domain.")
@click.option("--tag", "tags", multiple=True, help="Only with this tag; may be given again.")
@click.option("--in-project", "project", help="Name of another project; this one by default.")
@click.option("--exclude-task", help="Leave out what this task taught.")
@click.option("--agent", "agent_id", help="Only what this agent's tasks taught.")
@click.option("--scores", is_flag=True, help="Show how each score came to be.")
@json_option
@click.pass_obj
def retrieve(
    invocation: Invocation,
    query: str,
    k: int | None,
    domain: str | None,
    tags: tuple[str, ...],
    project: str | None,
    exclude_task: str | None,
    agent_id: str | None,
    scores: bool,
    as_json: bool,
) -> None:
    """Find the memories that fit QUERY, best first.

    \b
    Examples:
      swarm-memory retrieve "the login form test is flaky"
      swarm-memory retrieve "add an index" -k 5 --tag postgres --json
    """
    from swarm_memory.tools.ports.memories import SearchFilter
    from swarm_memory.tools.retrieve.retrieve import retrieve as operation

    only = SearchFilter(domain, tags, exclude_task, agent_id)
    found = invocation.read(lambda toolbox: operation(toolbox.in_project(project), query, k=k, only=only))
    print_json(found) if as_json else show_retrieval(found, scores=scores)


def show_retrieval(found: Retrieval, *, scores: bool) -> None:
    """Print an answer for people."""
    for memory in found.memories:
        item, parts = memory.item, memory.parts
        say(f"{memory.score:.3f}  {item.title}", bold=True)
        say(f"       {item.id} · {item.outcome} · {item.scope.project}", dim=True)
        if scores:
            made = f"relevance {parts.relevance:.3f}, recency {parts.recency:.3f}, confidence {parts.confidence:.3f}"
            say(f"       {made}, less {parts.diversity_penalty:.3f} for likeness", dim=True)
            say(f"       cosine {_number(parts.cosine)}, keyword {_number(parts.keyword)}", dim=True)
        for line in item.content.splitlines():
            say(f"       {line}")
    if found.reason:
        say(found.reason)
    if found.nearest is not None:
        near = found.nearest
        say(f"Nearest: {near.title} (cosine {_number(near.cosine)}, keyword coverage {near.keyword_coverage:.2f})")
    for notice in found.notices:
        say(f"Note: {notice}", fg="yellow")
    say(f"{', '.join(found.legs)} · {found.embedder} · {found.latency_ms:.1f} ms · {found.retrieval_id}", dim=True)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


@click.command("pre-task")
@click.option("--task-id", required=True, help="Your id of the task; give it to post-task again.")
@click.option("--query", required=True, help="The task, in its own words.")
@click.option("-k", type=click.IntRange(1, 50), help="How many at most; 3 by default.")
@json_option
@click.pass_obj
def pre_task(invocation: Invocation, task_id: str, query: str, k: int | None, as_json: bool) -> None:
    """For agents without hooks: print what to put into the prompt before a task starts.

    Prints nothing when nothing fits. What the task itself taught before is left out.

    \b
    Example:
      swarm-memory pre-task --task-id T-17 --query "make the importer handle empty files"
    """
    from swarm_memory.tools.ports.memories import SearchFilter
    from swarm_memory.tools.retrieve.retrieve import retrieve as operation

    only = SearchFilter(exclude_task=task_id)
    found = invocation.read(lambda toolbox: operation(toolbox, query, k=k, only=only, task_id=task_id))
    if as_json:
        print_json(found)
    elif found.preamble:
        say(found.preamble)
