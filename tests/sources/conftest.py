"""A bank in a real file, and sources made by hand: groups of passages as a reader gives them."""

import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import place_of
from swarm_memory.tools.ports.sources import ReadGroup

Texts = Sequence[tuple[str, str, str]]
"""Title, description, content of each passage."""


class MadeSource:
    """Groups that are read, and how often each was parsed."""

    def __init__(self, kind: SourceKind) -> None:
        self.kind: SourceKind = kind
        self.groups: dict[str, Texts] = {}
        self.parsed: list[str] = []

    async def read(self) -> AsyncIterator[ReadGroup]:
        for name, texts in self.groups.items():
            content_hash = hashlib.sha256(repr(texts).encode()).hexdigest()
            yield name, content_hash, self._parser(name, texts)

    def _parser(self, name: str, texts: Texts) -> Callable[[], list[Passage]]:
        def parse() -> list[Passage]:
            self.parsed.append(name)
            return [
                Passage(kind=self.kind, group=name, position=position, title=title, description=about, content=text)
                for position, (title, about, text) in enumerate(texts)
            ]

        return parse


@pytest.fixture
def place(tmp_path: Path) -> Location:
    """A project with one page."""
    folder = tmp_path / "shop"
    (folder / "docs").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nThe retry limit stands in settings.toml.\n")
    return place_of(folder, Settings())


@pytest.fixture
def made() -> Callable[[SourceKind], MadeSource]:
    """Return an empty source of a kind."""
    return MadeSource
