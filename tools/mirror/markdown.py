"""A memory as a Markdown file, and what a file that somebody wrote or changed does to the bank."""

import re
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from swarm_memory.schema.base import MEMORY, Model, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.tools.anchors.handles import handles_of, named_handles
from swarm_memory.tools.anchors.staleness import anchored
from swarm_memory.tools.guard.gate import LOCAL, admitted, held_back
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import Finding
from swarm_memory.tools.memories.decide import MemoryChange, edit
from swarm_memory.tools.memories.remember import NOTE_CONFIDENCE, add_new, title_of
from swarm_memory.tools.text.cleaning import faults, is_memory_id
from swarm_memory.tools.toolbox import Toolbox

_FRONT = re.compile(r"\A---\n(.*?\n|)---(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"\A\s*# +(.+)(?:\n|\Z)")
_MERGING = re.compile(r"(?m)^<<<<<<< ")
_MOST_HANDLES = 20


class Front(Model):
    """What is read of a file's front matter; state and evidence are for people."""

    id: str = ""
    when: str = ""
    tags: tuple[str, ...] = ()
    handles: tuple[str, ...] = Field(default=(), max_length=_MOST_HANDLES)


class Page(NamedTuple):
    """A file that was read."""

    front: Front
    title: str
    content: str

    def says(self, item: MemoryItem) -> bool:
        """Whether it says what the file of a memory would."""
        same = read_page(written(item))
        ours, others = ((each.title, each.content, each.front.when, each.front.tags) for each in (self, same))
        return ours == others


def written(item: MemoryItem) -> str:
    """Return the file of an active memory: the same for the same memory, and without secrets."""
    import yaml

    source = item.provenance
    who = "the user said it" if source.is_users_word else f"{source.distiller}, judged by {source.judge or 'nobody'}"
    handles = [each.partition(":")[2] for each in handles_of(item) if not each.startswith("error:")][:_MOST_HANDLES]
    named = {"id": item.id, "when": item.description, "tags": [*item.tags], "handles": handles, "state": "active"}
    named = {key: each for key, each in named.items() if each} | {"evidence": who}
    front: str = yaml.safe_dump(named, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]
    return redact(f"---\n{front}---\n\n# {' '.join(item.title.split())}\n\n{item.content.strip()}\n").text


def name_of(item: MemoryItem) -> str:
    """Return how its file is called where it has none yet."""
    slug = re.sub(r"[^a-z0-9]+", "-", item.title.lower())[:50].strip("-")
    return f"{slug or 'memory'}--{item.id}.md"


def read_page(text: str) -> Page:
    """Read a file, with or without front matter. Raises `InputError`."""
    import yaml

    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if _MERGING.search(text):
        raise InputError("it is in the middle of a merge: resolve it first")
    found = _FRONT.match(text)
    try:
        given: Any = yaml.safe_load(found[1]) or {} if found else {}
        front = Front.model_validate({key: given[key] for key in Front.model_fields if given.get(key) is not None})
    except (yaml.YAMLError, RecursionError, ValueError, AttributeError) as error:
        why = faults(error) if isinstance(error, ValidationError) else "it must be YAML, a field a line"
        raise InputError(f"its front matter cannot be read: {why}") from error
    body = text[found.end() :] if found else text
    heading = _TITLE.match(body)
    content = (body[heading.end() :] if heading else body).strip()
    if not content:
        raise InputError("it says nothing: write what is to be remembered below its title")
    return Page(front, " ".join(heading[1].split()) if heading else title_of(content), content)


async def change(toolbox: Toolbox, item: MemoryItem, page: Page, name: str) -> MemoryItem:
    """Have a memory say what the user wrote into its file. Raises as `edit`."""
    texts = MemoryChange(page.title, page.front.when, page.content, page.front.tags)
    return (await edit(toolbox, item.id, texts, f"edited in {name}")).items[0]


async def add(toolbox: Toolbox, page: Page, name: str, *, why: str = "", is_copy: bool = False) -> MemoryItem:
    """Store what a file says: as the user's word or, with `why`, as a proposal in quarantine, for a copy with a new id.

    It is screened as what an agent passes on, since agents write files too; only the user releases what is held back.
    What the bank has in these words is not stored again. Raises `InputError`, `StorageError`.
    """
    if same := await toolbox.store.said(toolbox.scope, page.content):
        return same[0]
    source = Provenance(
        distiller="imported" if why else "user",
        imported_from=name[:200] if why else None,
        judge="agent",
        screened_by=LOCAL,
        handles=named_handles(page.front.handles),
    )
    own = new_id(MEMORY) if is_copy or not is_memory_id(page.front.id) else page.front.id
    sure = {"confidence": NOTE_CONFIDENCE if why else 1.0, "created_at": toolbox.clock.now(), "scope": toolbox.scope}
    texts = {"title": page.title, "description": page.front.when, "content": page.content, "tags": page.front.tags}
    item = admitted({"id": own, **texts, **sure}, source, toolbox.settings)
    if why and item.status == "active":
        item = held_back(item, (Finding(f"proposed by {name}", why),))
    (item,) = await anchored(toolbox, [item])
    ids, _ = await add_new(toolbox, [item])
    same = [] if ids else await toolbox.store.said(toolbox.scope, item.content)  # another process stored it since
    return same[0] if same else item
