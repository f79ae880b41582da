"""What is indexed besides memories: passages of tools, documents, code and API descriptions."""

from typing import Literal, TypeAlias, get_args

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Timestamp

ReadKind: TypeAlias = Literal["tool", "document", "code", "api"]
SourceKind: TypeAlias = Literal[ReadKind, "github"]
"""What a bank may hold. GitHub repositories were read by an earlier version only."""

SOURCE_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)


class Passage(Model):
    """One unit that is found as a whole: a tool, a part of a document, a function or class, an operation of an API."""

    kind: SourceKind
    group: str = Field(min_length=1, max_length=2000)
    """What it is part of: the path of the document or file within its source, or the name of the tool's server."""
    position: int = Field(ge=0)
    """Its place in the group, from 0; the passages next to it are its context."""
    title: str = Field(min_length=1, max_length=1000)
    """The tool's name, the headings above the part, the qualified name of the function."""
    description: str = ""
    """Its own description: that of the tool, or the docstring; empty for a part of a document."""
    content: str = ""
    """The rest: parameters, the text, signature and body."""
    path: str | None = None
    """The file, relative to the folder that was indexed, with `/`."""
    line: int | None = Field(default=None, ge=1)
    end_line: int | None = Field(default=None, ge=1)
    data: dict[str, JsonValue] = Field(default_factory=dict)
    """What a caller needs to use it, such as a tool's input schema."""

    @property
    def embedding_text(self) -> str:
        """The text that is embedded: title (for a turn only its speaker: its day says little), description, content."""
        return "\n".join(filter(None, (str(self.data.get("speaker", self.title)), self.description, self.content)))


class Fault(Model):
    """A part of a source from which not all passages could be made; what was indexed from it before is kept."""

    group: str
    reason: str


class IndexingReport(Model):
    """What indexing a source did. The numbers count groups, except `passages`."""

    kind: SourceKind
    location: str
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    passages: int = 0
    """Passages that were written just now."""
    reason: str | None = None
    """Why nothing of the source is indexed now; None where something is."""
    faults: tuple[Fault, ...] = ()
    notices: tuple[str, ...] = ()


class SourceInfo(Model):
    """One source of a scope."""

    id: int
    kind: SourceKind
    location: str
    groups: int
    passages: int
    indexed_at: Timestamp
