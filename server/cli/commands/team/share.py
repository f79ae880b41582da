"""`propose`, `proposals` and `review`: what leaves this machine for the team, and what a reviewer makes of it."""

from typing import TYPE_CHECKING, get_args

import click

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.schema.team.sharing import Act, Decided, Proposal, Proposed
from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.ports.outside import Team
    from swarm_memory.tools.toolbox import Toolbox


def _team(toolbox: "Toolbox", *, needs_server: bool = False) -> "Team":
    """Return the team's server, or where none is set this bank as one. Raises `ConfigError`."""
    from swarm_memory.server.team.client import TeamClient
    from swarm_memory.tools.team.bank import TeamBank

    if toolbox.settings.team.url is None and not needs_server:
        return TeamBank(toolbox)
    return TeamClient(toolbox.settings.team)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--word", default="", help="What a reviewer should know.")
@click.option("--everywhere", is_flag=True, help="For all projects of the team, not for this one alone.")
@click.option("--yes", is_flag=True, help="Send without asking.")
@json_option
@click.pass_obj
def propose(
    invocation: Invocation, ids: tuple[str, ...], word: str, everywhere: bool, yes: bool, as_json: bool
) -> None:
    """Propose memories to the team: their words and how often they worked, nothing of the tasks.

    What is sent is shown before, redacted and screened again. Nobody is told it until a reviewer has accepted it.

    \b
    Examples:
      swarm-memory propose rm_01JXYZ…
      swarm-memory propose rm_01JXYZ… --word "cost me a day" --yes
    """
    from swarm_memory.schema.base import GLOBAL_PROJECT, TEAM
    from swarm_memory.tools.team.propose import outgoing
    from swarm_memory.tools.team.propose import propose as send

    async def look(toolbox: "Toolbox") -> list[Proposed]:
        _team(toolbox, needs_server=True)
        project = GLOBAL_PROJECT if everywhere else toolbox.team[0].project.removeprefix(TEAM)
        return await outgoing(toolbox, ids, project, word)

    wanted = invocation.run(look)
    url = invocation.settings().settings.team.url
    if not yes:
        for each in wanted:
            _show_sent(each)
        click.confirm(f"Send this to {url}?", abort=True, err=True)
    found = invocation.run(lambda toolbox: send(toolbox, _team(toolbox), str(url), wanted))
    if as_json:
        print_json(found)
        return
    for each in found:
        say(f"{each.origin_id}: {_stands(each)}")


def _show_sent(proposed: Proposed) -> None:
    say(proposed.draft.title, bold=True)
    for text in (proposed.draft.description, proposed.draft.content):
        if text:
            say(text)
    tags = f"tags {', '.join(proposed.draft.tags)}; " if proposed.draft.tags else ""
    about = "all projects" if proposed.project == "*" else proposed.project
    say(f"  {tags}{proposed.evidence.says}; for {about}", fg="cyan")


def _stands(proposal: Proposal) -> str:
    by = f" by {proposal.decided_by}" if proposal.decided_by else ""
    word = f": {proposal.decision}" if proposal.decision else ""
    if proposal.status == "waiting":
        return f"waits for a reviewer ({proposal.id}){f'; held back: {proposal.held}' if proposal.held else ''}"
    return f"{proposal.status}{by}{word}"


@click.command()
@click.option("--mine", is_flag=True, help="Your own, whatever became of them.")
@click.option("--all", "everything", is_flag=True, help="Also what was decided.")
@json_option
@click.pass_obj
def proposals(invocation: Invocation, mine: bool, everything: bool, as_json: bool) -> None:
    """List what is proposed to the team and waits for a reviewer; one card for what says the same."""

    async def operate(toolbox: "Toolbox") -> list[Proposal]:
        return await _team(toolbox).proposals(None if mine or everything else "waiting", mine=mine)

    found = invocation.run(operate)
    if as_json:
        print_json(found)
        return
    for each in found:
        say(f"{each.id}  {each.draft.title}", bold=True)
        say("  " + each.draft.content.replace("\n", "\n  "))
        where = "all projects" if each.project == GLOBAL_PROJECT else each.project
        told = f"  {each.evidence.says}; by {each.person or 'the user of the server'}, for {where}"
        said = f'; they say "{each.word}"' if each.word else ""
        say(f"{told}; {_stands(each)}{said}", fg="cyan")
    if not found:
        say("Nothing waits for a decision." if not (mine or everything) else "No proposals.")


@click.command()
@click.argument("proposal_id", metavar="ID")
@click.argument("act", type=click.Choice(get_args(Act)))
@click.option("--word", default="", help="Why; whoever proposed it reads that.")
@click.option("--title", help="With edit: the title as it is accepted.")
@click.option("--description", help="With edit: the description.")
@click.option("--content", help="With edit: the content.")
@json_option
@click.pass_obj
def review(
    invocation: Invocation,
    proposal_id: str,
    act: Act,
    word: str,
    title: str | None,
    description: str | None,
    content: str | None,
    as_json: bool,
) -> None:
    """Accept a proposal, as it is or with other words, decline it, or take that back.

    Those that say the same are decided with it. It needs the role review.

    \b
    Examples:
      swarm-memory review pr_01JXYZ… accept
      swarm-memory review pr_01JXYZ… edit --title "Start the database before the tests"
      swarm-memory review pr_01JXYZ… decline --word "only true before the move"
    """
    given = {"title": title, "description": description, "content": content}
    texts = {name: text for name, text in given.items() if text is not None}
    if bool(texts) != (act == "edit"):
        raise click.UsageError("edit, and only edit, takes --title, --description or --content")

    async def operate(toolbox: "Toolbox") -> Proposal:
        team, draft = _team(toolbox), None
        if texts:
            from swarm_memory.tools.team.bank import edited

            draft = edited(await team.proposals(), proposal_id, texts)
        return await team.decide(proposal_id, Decided(act=act, word=word, draft=draft))

    found = invocation.run(operate)
    print_json(found) if as_json else say(f"{found.draft.title}: {_stands(found)}")
