"""What is left of somebody among what a team shares, taken out when they are forgotten."""

import json
from typing import TYPE_CHECKING

from pydantic import JsonValue

from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.team.person import Person
from swarm_memory.server.storage.stores.forgetting import FORGOTTEN
from swarm_memory.server.storage.stores.rows import to_json
from swarm_memory.server.storage.stores.team.sharing import next_revision

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

_PEOPLE, _TEAM, _FORGETTING = queries("people"), queries("team"), queries("forgetting")


def take_out_of_team(connection: "Connection", person: Person) -> None:
    """Delete a person's proposals and evidence, and take their name out of what others proposed and decided.

    What changed by that goes to everybody's cache as any other change does.
    """
    connection.execute(_PEOPLE["part_from_alike"], (person.id,))
    connection.execute(_PEOPLE["drop_proposals_of_person"], (person.id,))
    values = {"name": person.name, "instead": FORGOTTEN, "tenant_id": person.tenant_id}
    connection.execute(_PEOPLE["unname_rulings"], values)
    counted = {each for (each,) in connection.execute(_PEOPLE["counted_by_person"], (person.id,)).fetchall()}
    connection.execute(_PEOPLE["drop_evidence_of_person"], (person.id,))
    shared = connection.execute(_PEOPLE["shared_of_tenant"], (person.tenant_id,)).fetchall()
    for memory_id, scope_id, proposed_by, accepted_by in shared:
        names = [name for name in json.loads(proposed_by) if name != person.name]
        by = FORGOTTEN if accepted_by == person.name else accepted_by
        if memory_id in counted or by != accepted_by or to_json(names) != proposed_by:
            told = {"memory_id": memory_id, "proposed_by": to_json(names), "accepted_by": by}
            connection.execute(_PEOPLE["name_shared"], told)
            summed = {"memory_id": memory_id, "revision": next_revision(connection, scope_id)}
            connection.execute(_TEAM["count_evidence"], summed)
    for seq, data in connection.execute(_PEOPLE["events_of_team"], (person.tenant_id,)).fetchall():
        told = json.loads(data)
        if (unnamed := _without(told, person.name)) != told:
            connection.execute(_FORGETTING["put_event"], {"data": to_json(unnamed), "key": seq})


def _without(value: JsonValue, name: str) -> JsonValue:
    """Return a value of JSON with another word in the place of a name."""
    if isinstance(value, dict):
        return {key: _without(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [_without(each, name) for each in value]
    return FORGOTTEN if value == name else value
