"""Taking the texts of trajectories out of the bank, for memories that are forgotten with what they came from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.schema.verdict import Verdict
from swarm_memory.server.storage.rows import content_hash, find_scopes, to_json

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

FORGOTTEN_TASK = "(forgotten)"

_QUERIES = queries("forgetting")


def blank_trajectories(connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str]) -> int:
    """Take task, steps and reasons out of every version of the tasks that the memories came from; return how many.

    Label, confidence and digest stay, so that the same transcript does not teach the memory again. It comes before the
    memories themselves are deleted.
    """
    scope_ids = to_json(list(find_scopes(connection, scopes)))
    found = {
        row[0]: row
        for memory_id in ids
        for row in connection.execute(
            _QUERIES["trajectories_of_pattern"], {"id": memory_id, "scope_ids": scope_ids}
        ).fetchall()
    }
    for seq, trajectory_id, task_id, verdict in found.values():
        text = Trajectory(task_id=task_id, task=FORGOTTEN_TASK).model_dump_json(exclude_defaults=True)
        values = {
            "seq": seq,
            "query": FORGOTTEN_TASK,
            "trajectory_json": text,
            "verdict_json": None if verdict is None else _without_words(verdict),
            "content_hash": content_hash(trajectory_id, text),
        }
        connection.execute(_QUERIES["blank_trajectory"], values)
        connection.execute(_QUERIES["clear_queries_of_task"], {"task_id": task_id, "scope_ids": scope_ids})
    return len(found)


def _without_words(verdict: str) -> str:
    judged = Verdict.model_validate_json(verdict)
    return judged.model_copy(update={"reasons": (), "evidence": ()}).model_dump_json()
