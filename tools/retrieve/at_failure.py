"""What is told beside a failed result: what ended the same error before. A hook command calls it and has no time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from swarm_memory.tools.credit.holdout import Lots
from swarm_memory.tools.retrieve.preamble import beside_failure
from swarm_memory.tools.trajectory.failures import shows_text, signature_of_call
from swarm_memory.tools.trajectory.tasks import is_own_tool

if TYPE_CHECKING:
    from swarm_memory.tools.retrieve.preamble import Way

    Tell = Callable[[Sequence[Way], Collection[frozenset[str]]], tuple[str, list[str]]]
    """Puts ways out, the surest first, into words; which of them contradict each other is said. Ids of those told."""


TELL_ALL = Lots()


class WaysOut(Protocol):
    """The bank, as far as it knows what ended an error."""

    def tell_ways_out(self, session_id: str, signature: str, tell: "Tell", lots: Lots) -> str:
        """Return what `tell` makes of the memories that ended errors of a signature, a digest, and record those told.

        Never the same one twice in a session, nor one that is left out of the task by lot; empty where there is none,
        or where the task is held out.
        """
        ...


def failure_context(bank: WaysOut, event: Mapping[str, Any], lots: Lots = TELL_ALL) -> str:
    """Return what the event of a failed call (`PostToolUseFailure`) is answered with; empty for nearly all of them.

    Nothing for a call that the user interrupted, for our own tools, for an error that says nothing; nor, where the host
    does not tell failures from other calls (`may_have_worked`), for a command that prints what it was asked for. Raises
    what the bank does: `StoreBusy` where it cannot be recorded in time.
    """
    tool, session_id, error = (event.get(name) for name in ("tool_name", "session_id", "error"))
    if not isinstance(tool, str) or not isinstance(session_id, str) or not isinstance(error, str) or not session_id:
        return ""
    if event.get("is_interrupt") is True or is_own_tool(tool):
        return ""
    given: Any = event.get("tool_input")
    inputs = cast(Mapping[str, object], given if isinstance(given, Mapping) else {})
    if event.get("may_have_worked") is True and shows_text(tool, inputs):
        return ""
    signature = signature_of_call(tool, inputs, error)
    if signature is None:
        return ""
    return bank.tell_ways_out(session_id, signature.digest, beside_failure, lots)
