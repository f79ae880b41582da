"""`team`: who may come in over HTTP, with which role, and what they did."""

from typing import TYPE_CHECKING, get_args

import click

from swarm_memory.schema.team.person import MAX_NAME_CHARS, AuditEntry, Person, Role
from swarm_memory.server.cli.commands.team.database import database_role, up
from swarm_memory.server.cli.console import json_option, print_json, print_table, say
from swarm_memory.server.cli.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.team.people import Added

name_argument = click.argument("name", metavar="NAME")


@click.group()
def team() -> None:
    """Let people use this bank over HTTP, each with a token and a role of their own.

    Each role may do what those before it may: read finds memories; write learns, too; review keeps, edits and withdraws
    what others brought; admin forgets, runs work on the server and sees who did what.

    \b
    Examples:
      swarm-memory team add ada --role write
      swarm-memory team people
      swarm-memory team revoke ada
      swarm-memory team audit
    """


@team.command("add", short_help="Let somebody in, and print their token, this once.")
@name_argument
@click.option("--role", type=click.Choice(get_args(Role)), default="read", show_default=True, help="What they may do.")
@click.option("--subject", help="Who they are to the OAuth issuer (http.oauth_issuer), which signs them in: no token.")
@json_option
@click.pass_obj
def add_command(invocation: Invocation, name: str, role: Role, subject: str | None, as_json: bool) -> None:
    """Let somebody in, and print their token. It is shown this once: only its hash is kept."""
    from swarm_memory.tools.team.people import add_person

    issuer = None if subject is None else invocation.settings().settings.http.oauth_issuer
    _tell_added(invocation.run(lambda toolbox: add_person(toolbox, name, role, issuer, subject)), as_json)


@team.command("token", short_help="Give somebody a new token in place of the former.")
@name_argument
@json_option
@click.pass_obj
def token_command(invocation: Invocation, name: str, as_json: bool) -> None:
    """Give somebody a new token. The former holds no more; whoever was revoked may come in again."""
    from swarm_memory.tools.team.people import renew_token

    _tell_added(invocation.run(lambda toolbox: renew_token(toolbox, name)), as_json)


def _tell_added(added: "Added", as_json: bool) -> None:
    """Print the token alone on the output, so that it can be put into a file; what is said of it goes beside."""
    person, token = added
    if as_json:
        print_json({"person": person, "token": token})
        return
    say(f"{person.name} may come in as {person.role}.", err=True)
    if token is None:
        say(f"Signed in by {person.issuer} as {person.subject}.", err=True)
        return
    say("Their token, shown this once; as `Authorization: Bearer …` at /mcp it is them:", err=True)
    click.echo(token)


@team.command("people")
@json_option
@click.pass_obj
def people_command(invocation: Invocation, as_json: bool) -> None:
    """List who may come in, and who no longer may."""
    from swarm_memory.tools.team.people import list_people

    found = invocation.read(list_people)
    if as_json:
        print_json(found)
    elif found:
        print_table(("name", "role", "since", "signed in by"), map(_row, found))
    else:
        say("Nobody yet: `swarm-memory team add NAME --role write`.")


def _row(person: Person) -> tuple[str, ...]:
    revoked = f" (revoked {person.revoked_at:%F})" if person.revoked_at else ""
    by = "a token" if person.subject is None else f"{person.issuer} as {person.subject}"
    return person.name + revoked, person.role, f"{person.created_at:%F}", by


@team.command("role")
@name_argument
@click.argument("role", type=click.Choice(get_args(Role)))
@json_option
@click.pass_obj
def role_command(invocation: Invocation, name: str, role: Role, as_json: bool) -> None:
    """Let somebody do more, or less, from their next request on."""
    from swarm_memory.tools.team.people import change_role

    person = invocation.run(lambda toolbox: change_role(toolbox, name, role))
    print_json(person) if as_json else say(f"{person.name} may now {person.role}.")


@team.command("revoke")
@name_argument
@json_option
@click.pass_obj
def revoke_command(invocation: Invocation, name: str, as_json: bool) -> None:
    """Let somebody in no more, from their next request on. What they brought stays."""
    from swarm_memory.tools.team.people import revoke

    person = invocation.run(lambda toolbox: revoke(toolbox, name))
    print_json(person) if as_json else say(f"{person.name} may come in no more.")


@team.command("audit")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_obj
def audit_command(invocation: Invocation, limit: int, as_json: bool) -> None:
    """Show who did what, the newest first: tokens, roles, decisions, what was forgotten, and refused requests."""
    from swarm_memory.tools.team.people import audit_trail

    found = invocation.read(lambda toolbox: audit_trail(toolbox, limit))
    if as_json:
        print_json([each._asdict() | {"data": dict(each.data)} for each in found])
    elif found:
        print_table(("when", "who", "what", "to", ""), map(_line, found))
    else:
        say("Nothing yet.")


def _line(entry: AuditEntry) -> tuple[str, ...]:
    who = entry.person or ("you" if entry.person_id is None else "somebody forgotten")
    told = ", ".join(f"{name} {value}" for name, value in entry.data.items())
    subject = (entry.subject or entry.subject_id or "")[:MAX_NAME_CHARS]
    return f"{entry.at:%F %T}", who, entry.action.removeprefix("reasoning_memory."), subject, told


team.add_command(up)
team.add_command(database_role)
