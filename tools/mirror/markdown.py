"""A memory as a Markdown file, and how a file that somebody wrote or changed affects the bank."""

import re
from typing import Any

from pydantic import Field, ValidationError

from swarm_memory.schema.base import MEMORY, Model, digest, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.tools.anchors.handles import MOST_LISTED, handles_of, listed_handles, named_handles
from swarm_memory.tools.anchors.staleness import set_anchors
from swarm_memory.tools.guard.gate import LOCAL, admit_memory, held_back
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import Finding
from swarm_memory.tools.memories.decide import MemoryChange
from swarm_memory.tools.memories.remember import NOTE_CONFIDENCE, add_new
from swarm_memory.tools.text.cleaning import faults, is_memory_id, read_yaml
from swarm_memory.tools.text.intent import title_of
from swarm_memory.tools.toolbox import Toolbox

_FRONT = re.compile(r"\A---\n(.*?\n|)---(?:\n|\Z)", re.DOTALL)
_TITLE = re.compile(r"\A\s*# +(.+)(?:\n|\Z)")
_WORDS = {"title", "when", "tags", "content"}
_IN_FRONT = ("id", "when", "tags", "handles")
"""The fields that are read from a file's front matter; state and evidence are only for people."""


class Page(Model):
    """A file that was read."""

    id: str = ""
    title: str
    when: str = ""
    tags: tuple[str, ...] = ()
    handles: tuple[str, ...] = Field(default=(), max_length=MOST_LISTED)
    content: str

    def says(self, item: MemoryItem) -> bool:
        """Whether the page says the same as the memory's own file would."""
        are_same = {*self.given(item)} == {*item.provenance.handles}
        return are_same and self.model_dump(include=_WORDS) == read_page(page_text(item)).model_dump(include=_WORDS)

    def given(self, item: MemoryItem) -> tuple[str, ...]:
        """Return the handles that the page gives the memory besides those in its texts, before and after the change."""
        after = item.model_copy(update={"title": self.title, "description": self.when, "content": self.content})
        known = {each.partition(":")[2] for each in (*handles_of(item), *handles_of(after))}
        removed = {*listed_handles(item)} - {*self.handles}
        own = [each for each in item.provenance.handles if each.partition(":")[2] not in removed]
        new = named_handles([each for each in self.handles if each not in known], by_hand=True)
        return tuple(dict.fromkeys((*own, *new)))

    @property
    def change(self) -> MemoryChange:
        """The change that the page makes to a memory."""
        return MemoryChange(self.title, self.when, self.content, self.tags)


def page_text(item: MemoryItem) -> str:
    """Return the text of an active memory's file: the same for the same memory, and without secrets."""
    import yaml

    named = {"id": item.id, "when": item.description, "tags": [*item.tags], "handles": [*listed_handles(item)]}
    named = {key: each for key, each in named.items() if each} | {"state": "active", "evidence": _evidence(item)}
    front: str = yaml.safe_dump(named, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]
    return redact(f"---\n{front}---\n\n# {' '.join(item.title.split())}\n\n{item.content.strip()}\n").text


def _evidence(item: MemoryItem) -> str:
    source = item.provenance
    return "the user said it" if source.is_users_word else f"{source.distiller}, judged by {source.judge or 'nobody'}"


def page_digest(item: MemoryItem) -> str:
    """Return a digest that changes when a memory's file would, in a hundredth of the time that writing one takes."""
    texts = (item.title, item.description, item.content, item.tags)
    return digest([*texts, item.provenance.handles, _evidence(item)])


def name_of(item: MemoryItem) -> str:
    """Return the name of the file for a memory that has none yet."""
    slug = re.sub(r"[^a-z0-9]+", "-", item.title.lower())[:50].strip("-")
    return f"{slug or 'memory'}--{item.id}.md"


def read_page(text: str) -> Page:
    """Read a file, with or without front matter. Raises `InputError`."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FRONT.match(text)
    body = text[found.end() :] if found else text
    heading = _TITLE.match(body)
    content = (body[heading.end() :] if heading else body).strip()
    title = " ".join(heading[1].split()) if heading else title_of(content or "-")
    try:
        given: Any = read_yaml(found[1]) or {} if found else {}
        known = {key: given[key] for key in _IN_FRONT if given.get(key) is not None}
        return Page.model_validate({**known, "title": title, "content": content})
    except (ValueError, AttributeError) as error:
        why = faults(error) if isinstance(error, ValidationError) else "it must be YAML, one field per line"
        raise InputError(f"its front matter cannot be read: {why}") from error


async def add(toolbox: Toolbox, page: Page, name: str, why: str = "", former: MemoryItem | None = None) -> MemoryItem:
    """Store what a file says: as the user's word or, with `why`, as a quarantined proposal to change the `former`.

    It is screened like what an agent passes on, since agents write files too; only the user releases what is held back.
    What the bank already has in these words is not stored again. Raises `InputError`, `StorageError`.
    """
    if same := await toolbox.store.said(toolbox.scope, page.content):
        return same[0]
    source = Provenance(
        distiller="imported" if why else "user",
        imported_from=name[:200] if why else None,
        judge="agent",
        screened_by=LOCAL,
    )
    own = new_id(MEMORY) if former or not is_memory_id(page.id) else page.id
    sure = {"confidence": NOTE_CONFIDENCE if why else 1.0, "created_at": toolbox.clock.now(), "scope": toolbox.scope}
    texts = {"title": page.title, "description": page.when, "content": page.content, "tags": page.tags}
    item = admit_memory({"id": own, **texts, **sure}, source, toolbox.settings)
    handles = page.given(former or item)
    item = item.model_copy(update={"provenance": item.provenance.model_copy(update={"handles": handles})})
    if why and item.status == "active":
        item = held_back(item, (Finding(f"proposed by {name}", why),))
    (item,) = await set_anchors(toolbox, [item])
    ids, _ = await add_new(toolbox, [item])
    same = [] if ids else await toolbox.store.said(toolbox.scope, item.content)  # another process stored it since
    return same[0] if same else item
