"""Kinds of events in the audit trail."""

RETRIEVED = "reasoning_memory.retrieved"
"""Memories were found for a query; the subject is the retrieval."""

INJECTED, WITHHELD = "task.injected", "task.withheld"
"""What a task was shown, and what was found for it but withheld; the subject is the task."""

BRIEFING, FILE = "briefing", "file"
"""Ways in which a task had memories that were not retrieved for it: shown as its session began, or read in a file that
they were promoted to."""

RESTED = "task.rested"
"""Memories that fitted a task but were not shown to it, because they are on trial; the subject is the task."""

BEGAN, CLEARED = "session.began", "session.cleared"
"""A host's session began; its context was emptied: what it was shown before is gone. The subject is the session."""

LISTED = "session.listed"
"""A host's session was told when some memories apply, without their text; the subject is the session."""

CALL, FAILURE = "call", "failure"
"""Ways in which a task was shown memories next to a call: before it ran, or where it failed."""

TRIED = "reasoning_memory.tried"
"""A fix was tried in a task and worked there, or did not; the subject is the memory."""

ASKED, ANSWERED = "agent.asked", "agent.answered"
"""The agent was asked what a task taught, and then taught it or went on; the subject is the task."""

OUTCOME, VERDICT = "task.outcome", "task.verdict"
"""What came of a task: the newest one counts. Its verdict was changed or requested again. The subject is the task."""

ARCHIVED = "reasoning_memory.archived"
"""A memory was withdrawn other than by a decision; the subject is the memory."""

PROMOTED, DEMOTED = "reasoning_memory.promoted", "reasoning_memory.demoted"
"""A memory was written into a file that agents read by themselves, or removed from it; the subject is the memory."""
