"""What is indexed beside memories: the passages of tools, documents, code and API descriptions."""

from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model

SourceKind: TypeAlias = Literal["tool", "document", "code", "api"]


class Passage(Model):
    """One unit that is found as a whole: a tool, a part of a document, a function or class, an operation of an API."""

    kind: SourceKind
    group: str = Field(min_length=1, max_length=2000)
    """What it is part of: the document's or file's path within its source, the name of the tool's server."""
    position: int = Field(ge=0)
    """Its place in the group, from 0: what stands beside it is its context."""
    title: str = Field(min_length=1, max_length=1000)
    """The tool's name, the headings above the part, the qualified name of the function."""
    description: str = ""
    """What it says of itself: the tool's description, the docstring; empty for a part of a document."""
    content: str = ""
    """The rest: parameters, the text, signature and body."""
    path: str | None = None
    """The file, relative to the folder that was indexed, with `/`."""
    line: int | None = Field(default=None, ge=1)
    end_line: int | None = Field(default=None, ge=1)
    data: dict[str, JsonValue] = Field(default_factory=dict)
    """What a caller needs to use it, such as a tool's input schema."""
