"""What came of shared memories for all: counted once for each person's bank; what fails for many withdraws itself."""

from collections.abc import Sequence

from swarm_memory.schema.base import counted
from swarm_memory.schema.team.person import Person
from swarm_memory.schema.team.sharing import Counted, Evidence, people
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.toolbox import Toolbox

MIN_PEOPLE = 2
"""What fails for one alone may be that one's machine."""

FAILS_BELOW = 0.5
"""A memory is withdrawn when the whole interval of how often it works lies below: it fails more than it helps."""


async def take_evidence(toolbox: Toolbox, person: Person | None, bank: str, given: Sequence[Counted]) -> list[str]:
    """Write what a person's bank counted, and withdraw what surely fails; return the ids that were withdrawn.

    Counts are absolute: sending them again changes nothing. What a person restored is weighed by what came since.
    """
    sound = [
        each.model_copy(update={"evidence": each.evidence.model_copy(update={"worked": worked})})
        for each in given
        for worked in (min(each.evidence.worked, each.evidence.tried),)
    ]
    tenant, at = toolbox.scope.tenant_id, toolbox.clock.now()
    changed = await toolbox.store.team.put_evidence(tenant, "" if person is None else person.id, bank[:100], sound, at)
    withdrawn: list[str] = []
    for scope, known in await toolbox.store.team.failing(tenant, changed):
        if fails(known.evidence):
            reason = why(known.evidence)
            await toolbox.store.set_status((scope,), [known.memory_id], "archived", reason)
            withdrawn.append(known.memory_id)
    return withdrawn


def fails(evidence: Evidence) -> bool:
    """Whether a memory fails more often than it works, for more than one person: the 95 % interval lies below half."""
    if evidence.people < MIN_PEOPLE or not evidence.tried:
        return False
    return wilson(evidence.worked, evidence.tried).high < FAILS_BELOW


def why(evidence: Evidence) -> str:
    """Return the reason of a withdrawal, with its figures."""
    most = wilson(evidence.worked, evidence.tried).high
    told = f"worked {evidence.worked} of {counted(evidence.tried, 'time')} for {people(evidence.people)}"
    return f"withdrawn by itself: {told}, so at most {most:.0%} of the times; restoring it weighs only what comes after"
