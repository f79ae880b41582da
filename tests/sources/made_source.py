"""A handmade source: groups of passages as a reader returns them."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from swarm_memory.schema.source import IndexingReport, Passage, SourceKind
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources.sources import index_source
from swarm_memory.tools.toolbox import Toolbox

Texts = Sequence[tuple[str, str, str]]
"""Title, description and content of each passage."""


class MadeSource:
    """Groups to read, and how many times each was parsed."""

    def __init__(self, kind: SourceKind, groups: Mapping[str, Texts]) -> None:
        self.kind: SourceKind = kind
        self.groups = dict(groups)
        self.parsed: list[str] = []

    async def index(self, toolbox: Toolbox, location: str = "made") -> IndexingReport:
        return await index_source(toolbox, self.kind, location, self.read())

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
