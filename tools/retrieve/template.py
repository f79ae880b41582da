"""What stands in most tasks of a project and so says nothing there: roles, rules of a harness, templates of tasks."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from swarm_memory.tools.retrieve.query import split_sentences
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

LEAST_TASKS, MOST_TASKS = 20, 200
"""Among fewer tasks nothing is thought common; of more the newest count."""

READ_CHARS = 4_000
"""Of a task."""

LEAST_WORDS = 12
"""A query of fewer distinct words has no template."""

_MOST = 0.5
_SAYS_NOTHING = 0.8
"""A sentence is part of a template when so much of its words are common."""


async def note_common_words(toolbox: Toolbox) -> None:
    """Note in the bank which words stand in most of the project's tasks. Raises `StorageError`."""
    tasks = await toolbox.store.recent_tasks(toolbox.scope, MOST_TASKS, READ_CHARS)
    await toolbox.store.put_common_words(toolbox.scope, common_words(tasks))


def common_words(tasks: Iterable[str]) -> list[str]:
    """Return the words that stand in more than half of the tasks, the same task counting once; none of a few tasks."""
    distinct = set(tasks)
    if len(distinct) < LEAST_TASKS:
        return []
    counts = Counter(word for task in distinct for word in query_tokens(task))
    return sorted(word for word, count in counts.items() if count > _MOST * len(distinct))


def without_template(text: str, common: Collection[str]) -> str:
    """Return a query without the sentences that hardly hold a word that is not common; all of it where none is left."""
    said = [part for part in split_sentences(text) if not _says_nothing(query_tokens(part), common)]
    return "\n".join(said) or text


async def own_words(toolbox: Toolbox, text: str) -> tuple[str, tuple[str, ...]]:
    """Return what of a query is not common in the project's tasks, and the words to look up. Raises `StorageError`.

    Both are the whole where nothing is common, or nothing else is said.
    """
    words = query_tokens(text)
    common = await toolbox.store.common_words(toolbox.scope) if len(words) >= LEAST_WORDS else frozenset[str]()
    if common.isdisjoint(words):
        return text, words
    said = without_template(text, common)
    words = query_tokens(said)
    return said, tuple(word for word in words if word not in common) or words


def _says_nothing(words: Sequence[str], common: Collection[str]) -> bool:
    return sum(word in common for word in words) >= _SAYS_NOTHING * len(words)
