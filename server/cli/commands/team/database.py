"""`team up` and `team database-role`: a PostgreSQL server to try, and roles that see one tenant."""

import click

from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation


@click.command("up", short_help="Start a PostgreSQL server here, for a try on one machine.")
@click.option("--stop", is_flag=True, help="Stop it. What it holds stays.")
@json_option
@click.pass_obj
def up(invocation: Invocation, stop: bool, as_json: bool) -> None:
    """Start a PostgreSQL server with pgvector in .swarm/postgres, without root, and print its URL.

    It is for a try on this machine: it listens on a socket there and asks no password. A team's own database is
    described in docs/TEAM.md.

    \b
    Examples:
      export SWARM_MEMORY_STORAGE__URL=$(swarm-memory team up)
      swarm-memory team up --stop
    """
    from swarm_memory.server.wiring import start_postgres, stop_postgres

    if stop:
        stopped = stop_postgres(invocation.place)
        print_json({"stopped": stopped}) if as_json else say("Stopped." if stopped else "There is none here.")
        return
    url = start_postgres(invocation.place)
    if as_json:
        print_json({"url": url})
        return
    say("PostgreSQL runs; `swarm-memory team up --stop` ends it. As storage.url in your own settings, or in", err=True)
    say("SWARM_MEMORY_STORAGE__URL, its address has this memory kept there:", err=True)
    click.echo(url)


@click.command("database-role", short_help="Make a role of the database that sees one tenant.")
@click.argument("name", metavar="NAME")
@click.option("--tenant", "tenant_id", required=True, help="The tenant whose memories it sees.")
@click.option("--in-project", "projects", multiple=True, metavar="PROJECT", help="Only this project. Repeatable.")
@json_option
@click.pass_obj
def database_role(invocation: Invocation, name: str, tenant_id: str, projects: tuple[str, ...], as_json: bool) -> None:
    """Make a role of the PostgreSQL database that sees one tenant, or admit one that is there; print its URL.

    `storage.url` must be the bank's owner's, who may make roles. The database itself holds the role to its tenant: it
    has no right to switch that off. Serve each tenant by a role of its own. The password is shown this once.

    \b
    Examples:
      swarm-memory team database-role acme_memory --tenant acme
      swarm-memory team database-role shop_memory --tenant acme --in-project shop --in-project '*'
    """
    from swarm_memory.server.wiring import admit_role

    url = admit_role(invocation.settings().settings, name, tenant_id, projects)
    if as_json:
        print_json({"role": name, "tenant_id": tenant_id, "projects": list(projects), "url": url})
    elif url is None:
        say(f"{name} was there, and is admitted now to tenant {tenant_id}.")
    else:
        say(
            f"{name} sees tenant {tenant_id}. Its URL, shown this once; storage.tenant_id must say {tenant_id}:",
            err=True,
        )
        click.echo(url)
