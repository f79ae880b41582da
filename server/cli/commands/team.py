"""`propose` and `team`: what leaves this machine for a team, who may come in over HTTP, and what they did."""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import anyio
import click
from pydantic import Field, ValidationError

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.settings import TeamSettings
from swarm_memory.schema.team.person import Person, Role
from swarm_memory.schema.team.sharing import Proposal, Proposed, Ruling
from swarm_memory.server.cli.command import Yes, command
from swarm_memory.server.cli.console import print_answer, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.operation import Positional, Row

if TYPE_CHECKING:
    from swarm_memory.tools.ports.team import Team
    from swarm_memory.tools.team.people import Added
    from swarm_memory.tools.toolbox import Toolbox

Name: TypeAlias = Annotated[str, Positional("NAME")]


def _team(toolbox: "Toolbox", *, needs_server: bool = False) -> "Team":
    """Return the team's server, or where none is set this bank in its place. Raises `ConfigError`."""
    from swarm_memory.server.team.client import TeamClient
    from swarm_memory.tools.team.bank import TeamBank

    if toolbox.settings.team.url is None and not needs_server:
        return TeamBank(toolbox)
    return TeamClient(toolbox.settings.team)


PROPOSAL = {"id", "status", "held", "suspect", "project", "word", "person", "decided_by", "decision"}
"""What people see of a proposal besides its words; `--json` has all."""


def _show_proposals(found: Sequence[Proposed | Proposal] | Proposal) -> None:
    """Print what is, or was, sent to the team: the words, how often they worked, for whom, and what came of it."""
    listed = [found] if isinstance(found, Proposal) else found
    rows = [each.draft.model_dump() | each.model_dump(mode="json", include=PROPOSAL) for each in listed]
    print_answer([row | {"evidence": each.evidence.says} for row, each in zip(rows, listed, strict=True)])


@command(show=_show_proposals)
def propose(
    invocation: Invocation,
    ids: Annotated[tuple[str, ...], Positional("ID...")],
    word: Annotated[str, "What a reviewer should know."] = "",
    everywhere: Annotated[bool, "For all of the team's projects, not just this one."] = False,
    yes: Yes = False,
) -> list[Proposal]:
    """Propose memories to the team: their words and how often they worked, nothing about the tasks.

    What is sent is shown first, redacted and screened again. Nobody is shown it until a reviewer has accepted it.

    \b
    Examples:
      swarm-memory propose rm_01JXYZ…
      swarm-memory propose rm_01JXYZ… --word "cost me a day" --yes
    """
    from swarm_memory.schema.base import TEAM
    from swarm_memory.tools.team.cache import outgoing
    from swarm_memory.tools.team.cache import propose as send

    async def look(toolbox: "Toolbox") -> list[Proposed]:
        _team(toolbox, needs_server=True)
        if not (everywhere or toolbox.team):
            raise ConfigError("the team has no name for this project: run `swarm-memory team join URL --project NAME`")
        project = GLOBAL_PROJECT if everywhere else toolbox.team[0].project.removeprefix(TEAM)
        return await outgoing(toolbox, ids, project, word)

    wanted = invocation.run(look)
    url = invocation.settings().settings.team.url
    if not yes:
        _show_proposals(wanted)
        click.confirm(f"Send this to {url}?", abort=True, err=True)
    return invocation.run(lambda toolbox: send(toolbox, _team(toolbox), str(url), wanted))


team = click.Group(
    "team",
    help="""Let people use this bank over HTTP, each with a token and a role of their own, and review what they propose.

    Each role may do what those before it may: read finds memories; write also learns; review keeps, edits and withdraws
    what others brought; admin forgets, runs work on the server and sees who did what.
    """,
)


@command(of=team, show=print_answer)
def join(
    invocation: Invocation,
    url: Annotated[str, Positional("URL")],
    project: Annotated[str | None, "The team's name for this project; its remote `origin` by default."] = None,
) -> Row:
    """Join a team: save its server's address and your token in your own settings, and pull what it shares.

    The token is asked for (not shown) or read from standard input; the project's name is asked for once per project.

    \b
    Examples:
      swarm-memory team join https://memory.acme.example
      swarm-memory team join https://memory.acme.example --project github.com/acme/shop < ada.token
    """
    from swarm_memory.server.config import with_setting
    from swarm_memory.server.location import user_file, write_private
    from swarm_memory.server.team.client import TeamClient
    from swarm_memory.server.team.project import origin_repository
    from swarm_memory.tools.team.cache import sync
    from swarm_memory.tools.text.cleaning import faults

    set_before, asks = invocation.settings().settings.team.project, sys.stdin.isatty()
    if set_before not in (None, project or set_before):
        raise ConfigError(f"team.project in your settings gives every project the name {set_before}: remove it first")
    token = click.prompt("Your token", hide_input=True, err=True) if asks else sys.stdin.readline().strip()
    named = project or set_before or origin_repository(invocation.root)
    if asks and project is None:
        named = click.prompt("The team's name for this project", default=named, err=True)
    if not named:
        raise InputError("this project has no remote `origin`: give the team's name for it as --project NAME")
    try:
        given = TeamSettings.model_validate({"url": url.removesuffix("/mcp"), "token": token, "project": named})
    except ValidationError as error:
        raise InputError(faults(error)) from error
    member, path = anyio.run(TeamClient(given).me), user_file(os.environ).resolve()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    for key, value in (("team.url", str(given.url)), ("team.token", token)):
        text = with_setting(text, key, json.dumps(value, ensure_ascii=False), str(path))
    write_private(path, text)
    done = invocation.run(lambda toolbox: sync(toolbox, TeamClient(given), str(given.url), named))
    joined: Row = {"team": given.url, "you": member.name, "role": member.role, "project": named, "pulled": done.pulled}
    if not done.pulled:
        joined["notice"] = (
            "nothing new is shared under this name: everyone who works on a project must join under the same one"
        )
    return joined


@command(of=team, show=_show_proposals)
async def review(
    site: Invocation,
    proposal_id: Annotated[str | None, Positional("[ID]")] = None,
    act: Annotated[Literal["accept", "decline", "undo"] | None, Positional("[ACT]")] = None,
    word: Annotated[str, "Why; whoever proposed it will read this."] = "",
    although_suspect: Annotated[bool, "Accept it even though its wording is marked; it keeps the mark."] = False,
    mine: Annotated[bool, "List your own proposals, whatever became of them."] = False,
    everything: Annotated[bool, "Also list what has been decided.", "--all"] = False,
) -> list[Proposal] | Proposal:
    """List the proposals that are waiting; or decide on one: ACT is accept, decline or undo.

    Proposals that say the same share one card and are decided together. Deciding needs the role review. The review page
    at /ui also accepts one in other words.

    \b
    Examples:
      swarm-memory team review --mine
      swarm-memory team review proposal_01JXYZ… accept
      swarm-memory team review proposal_01JXYZ… decline --word "only true before the move"
    """
    if proposal_id is not None and act is None:
        raise click.UsageError("give your decision: accept, decline or undo")
    from swarm_memory.server.jobs.team import pull

    team = _team(toolbox := await site.toolbox())
    if proposal_id is None or act is None:
        return await team.proposals(None if mine or everything else "waiting", mine=mine)
    decided = await team.decide(proposal_id, Ruling(act=act, word=word, although_suspect=although_suspect))
    if fault := await pull(toolbox, again=True):  # the decision takes effect here immediately
        say(fault)
    return decided


def _show_person(found: "Added | Person | list[object]") -> None:
    """Print a token alone on standard output, so that it can be put into a file; remarks on it go to stderr."""
    from swarm_memory.tools.team.people import Added

    if not isinstance(found, Added):
        print_answer(found)
        people = [each for each in found if isinstance(each, Person)] if isinstance(found, list) else []
        if without := [each.name for each in people if not each.has_token and each.revoked_at is None]:
            say(f"no token: {', '.join(without)}; `swarm-memory team people NAME --new-token` gives one")
        return
    person, token = found
    say(f"{person.name} has access with the role {person.role}.", err=True)
    say("Their token, shown only this once; as `Authorization: Bearer …` at /mcp it identifies them:", err=True)
    click.echo(token)


@command(of=team, show=_show_person)
async def add(site: Invocation, name: Name, role: Annotated[Role, "What they may do."] = "read") -> "Added":
    """Give somebody access, and print their token. It is shown only this once: only its hash is kept."""
    from swarm_memory.tools.team.people import add_person

    return await add_person(await site.toolbox(), name, role)


@command(of=team, show=_show_person)
async def people(
    site: Invocation,
    name: Annotated[str | None, Positional("[NAME]")] = None,
    role: Annotated[Role | None, "Let NAME do more, or less, from their next request on."] = None,
    new_token: Annotated[
        bool, "Give NAME a new token; the old one stops working, and a revoked person regains access."
    ] = False,
    revoke: Annotated[bool, "Revoke NAME's access, from their next request on. What they brought stays."] = False,
    audit: Annotated[bool, "Show who did what: tokens, roles, decisions, what was forgotten."] = False,
    limit: Annotated[int, Field(ge=1, le=1000, description="With --audit: how many entries.")] = 50,
) -> object:
    """List who has access and who no longer does; or change what NAME may do.

    \b
    Example:
      swarm-memory team people ada --revoke
    """
    from swarm_memory.tools.team.people import change_role, renew_token
    from swarm_memory.tools.team.people import revoke as revoke_person

    changes = [role is not None, new_token, revoke].count(True)
    if changes != (name is not None) or (audit and name is not None):
        raise click.UsageError("NAME takes one of --role, --new-token and --revoke; --audit and the list take no NAME")
    toolbox = await (site.for_reading() if name is None else site.toolbox())
    if audit:
        trail = await toolbox.store.people.audit(toolbox.scope.tenant_id, limit)
        return [each._asdict() | {"data": dict(each.data)} for each in trail]
    if name is None:
        return await toolbox.store.people.list(toolbox.scope.tenant_id)
    if new_token:
        return await renew_token(toolbox, name)
    return await (revoke_person(toolbox, name) if role is None else change_role(toolbox, name, role))
