"""Kinds of events in the audit trail."""

RETRIEVED = "reasoning_memory.retrieved"
"""Memories were found for a query; the subject is the retrieval."""

INJECTED, WITHHELD = "task.injected", "task.withheld"
"""What a task was given, and what was found for it and kept from it; the subject is the task."""

BRIEFING, FILE = "briefing", "file"
"""Ways by which a task had memories before it that were not retrieved for it: shown as its session began, or read in a
file that they were promoted to."""

RESTED = "task.rested"
"""Memories that fitted a task and were not shown to it, since they are on trial; the subject is the task."""

CLEARED = "session.cleared"
"""The context of a host's session was emptied: what it was shown before it has no more; the subject is the session."""

LISTED = "session.listed"
"""Memories of which a host's session was shown when they matter; the subject is the session."""

CALL, FAILURE = "call", "failure"
"""Ways by which a task was shown memories beside a call, before it ran or where it failed."""

TRIED = "reasoning_memory.tried"
"""A fix was tried in a task, and worked there or did not; the subject is the memory."""

ASKED, ANSWERED = "agent.asked", "agent.answered"
"""The agent was asked what a task taught, and taught it then or went on; the subject is the task."""

OUTCOME, VERDICT = "task.outcome", "task.verdict"
"""What came of a task, the newest holds; its verdict was changed, or asked for once more; the subject is the task."""

ARCHIVED = "reasoning_memory.archived"
"""A memory was withdrawn other than by a decision; the subject is the memory."""

PROMOTED, DEMOTED = "reasoning_memory.promoted", "reasoning_memory.demoted"
"""A memory was written into a file that agents read by themselves, or taken out of it; the subject is the memory."""
