"""Kinds of events in the audit trail. Hook commands import this: the standard library alone."""

RETRIEVED = "reasoning_memory.retrieved"
"""Memories were found for a query; the subject is the retrieval."""

INJECTED, WITHHELD = "task.injected", "task.withheld"
"""What a task was given, and what was found for it and kept from it; the subject is the task."""

TOLD_AT_FAILURE = "failure.told"
"""A way out of an error that a session was told, or that was kept from it; the subject is the session."""

TRIED = "reasoning_memory.tried"
"""A way out was tried in a task, and worked there or did not; the subject is the memory."""

ASKED = "agent.asked"
"""The agent was asked what a task taught; the subject is the task."""

VERDICT = "task.verdict"
"""The verdict on a task was changed, or asked for once more; the subject is the task."""
