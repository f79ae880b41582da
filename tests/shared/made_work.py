"""Made-up jobs, records of learning runs and lessons of an agent, for a bank."""

from datetime import UTC, datetime
from typing import Any

from indexed_items import NUMBERS
from made_items import HERE

from swarm_memory.schema.base import JOB, RUN, TRAJECTORY, new_id
from swarm_memory.schema.job import Job
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.ports.memories import StoredMemory
from swarm_memory.tools.ports.records import LearnRecord

AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
WON = Verdict(label="Success", confidence=0.9, reasons=("tests passed",), evidence=("s1",), judge="evidence")


def made_job(key: str = "k", run_after: datetime = AT, **fields: Any) -> Job:
    """Return a queued job; fields that are not given have defaults."""
    given: dict[str, Any] = {"id": new_id(JOB), "scope": HERE, "kind": "learn", "created_at": run_after}
    return Job(key=key, run_after=run_after, **(given | fields))


def made_record(done: Trajectory, *memories: StoredMemory, **fields: Any) -> LearnRecord:
    """Return the record of a run that learned memories from a task; fields that are not given have defaults."""
    given: dict[str, Any] = {
        "scope": HERE,
        "run_id": new_id(RUN),
        "trajectory_id": new_id(TRAJECTORY),
        "trajectory": done,
        "verdict": WON,
        "embedder": NUMBERS.name,
        "memories": memories,
        "reinforced": (),
        "reinforcement": 0.0,
        "at": AT,
    }
    return LearnRecord(**(given | fields))


def lesson(task_id: str, about: str, said: str = "I did it.") -> dict[str, Any]:
    """Return the arguments of `distill_memories` with which an agent stores one lesson."""
    item = {"title": f"Mend {about}", "description": f"When {about} fails.", "content": f"Run {about} again."}
    steps = [{"role": "assistant", "content": said}]
    return {"task_id": task_id, "task": f"Mend {about}", "steps": steps, "items": [item], "verdict": "Success"}
