"""The passages of sources in the bank, never among memories: searched, read, written in groups with indexes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.source import Passage, SourceInfo, SourceKind
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.engine.engine import Engine, Part, reads, writes
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.search.vectors import Search, kept_cosines
from swarm_memory.server.storage.search.words import joined
from swarm_memory.server.storage.stores.rows import Queries, find_scopes, made, make_scope, now_text, to_json
from swarm_memory.server.storage.stores.upkeep import Vectors
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.ports.sources import (
    FoundPassage,
    PassageCandidate,
    SourceKey,
    SourceResult,
    StoredGroup,
    StoredPassage,
)

_SQL = Queries("sources")
_GROUPS_AT_ONCE = 200
"""At most this many groups are removed in one transaction: other writers wait for it."""


class Sources(Part):
    """The passages of one bank."""

    def __init__(self, bank: Engine) -> None:
        super().__init__(bank)
        self.index = bank.index.beside(_SQL)
        self.vectors = Vectors(bank, self.index)

    @reads
    def groups(self, connection: Connection, source: SourceKey) -> dict[str, str]:
        """Return the hashes of a source's groups by their names; empty if it was never indexed."""
        found: tuple[int, int] | None = _SQL.row(connection, "find_source", *source)
        return {} if found is None else dict(_SQL.rows(connection, "groups_of_source", found[1]))

    @writes
    def write_groups(
        self, connection: Connection, source: SourceKey, groups: Sequence[StoredGroup], embedder: str
    ) -> None:
        """Write groups with all indexes in one transaction, each replacing the group of the same name."""
        index, now = self.index, now_text()
        (partition,) = _SQL.column(connection, "put_partition", make_scope(connection, source.scope), source.kind)
        (source_id,) = _SQL.column(connection, "put_source", partition, source.location, now)
        removed = [_remove_group(connection, index, partition, source_id, group.name) for group in groups]
        (last,) = _SQL.column(connection, "last_passage", sum(len(group.passages) for group in groups))
        rows: list[dict[str, Any]] = []
        stored: list[tuple[int, StoredPassage]] = []
        for group in groups:
            names = (group.name, group.content_hash, joined(group.name_tokens))
            group_id = _SQL.run(connection, "add_group", source_id, *names, now).lastrowid
            added = list(enumerate(group.passages, start=last + len(stored) + 1))
            for seq, each in added:
                place = {"seq": seq, "group_id": group_id, "partition_id": partition}
                rows.append(each.passage.model_dump(include=_COLUMNS) | place | {"data": to_json(each.passage.data)})
            stored += added
        fields = [(seq, each.title_tokens, each.description_tokens, each.content_tokens) for seq, each in stored]
        vectors = {seq: each.vector for seq, each in stored if each.vector is not None}
        connection.executemany(_SQL["add_passage"], rows)
        connection.executemany(_SQL["put_tokens"], [(seq, *map(joined, each)) for seq, *each in fields])
        index.enter_new(connection, [seq for seq, _ in stored], partition)
        if vectors:
            dimensions = len(next(iter(vectors.values())))
            space = index.make_space(connection, embedder, dimensions, self.bank.quantization_of(embedder))
            index.put_new_vectors(connection, partition, space, vectors, now)
        if any(removed):
            index.tidy(connection)

    @writes
    def remove_groups(self, connection: Connection, source: SourceKey, names: Sequence[str]) -> int:
        """Delete groups with their passages and indexes in one transaction; return how many were there."""
        found: tuple[int, int] | None = _SQL.row(connection, "find_source", *source)
        if found is None:
            return 0
        removed = sum(_remove_group(connection, self.index, *found, name) for name in names)
        _SQL.run(connection, "optimize_keyword_index")
        self.index.tidy(connection)
        return removed

    @reads
    def search(
        self,
        connection: Connection,
        query: SearchQuery,
        kinds: Sequence[SourceKind],
        neighbours: Mapping[SourceKind, int],
    ) -> SourceResult:
        """Search both indexes for passages of some kinds. Raises `StorageError` for an unsound query vector.

        Up to `neighbours[kind]` passages on each side of a candidate are candidates too. Deleted ones are left out.
        """
        search = Search(self.index, query, {"scopes": to_json(query.scopes), "kinds": to_json(kinds)})
        found = search.run(connection)
        seqs = list(dict.fromkeys([*found.near, *found.matching]))
        seqs += _SQL.column(connection, "neighbours", seqs=seqs, distances=neighbours)
        model, dims = (found.vector.space.model, found.vector.space.dims) if found.vector else ("", 0)
        rows = _SQL.rows(connection, "candidates", seqs=list(dict.fromkeys(seqs)), model=model, dims=dims)
        alike = kept_cosines(found.vector, [row[-1] for row in rows])
        candidates = tuple(PassageCandidate(*row[:-1], cosine=each) for row, each in zip(rows, alike, strict=True))
        return search.answer(found, candidates, "passages")

    @reads
    def get_passages(self, connection: Connection, scopes: Sequence[Scope], seqs: Sequence[int]) -> list[FoundPassage]:
        """Return those that exist, in the order of `seqs`."""
        rows = _SQL.named(connection, "passages", seqs=seqs, scope_ids=find_scopes(connection, scopes))
        return [
            FoundPassage(passage=made(Passage, row, data=json.loads(row["data"])), **{at: row[at] for at in _AROUND})
            for row in rows
        ]

    @reads
    def list_sources(self, connection: Connection, scope: Scope) -> list[SourceInfo]:
        return _SQL.models(connection, SourceInfo, "list_sources", scope)

    async def remove(self, source: SourceKey) -> int:
        """Delete a source with every trace of it; return how many passages it had. Raises `NotFoundError`."""
        listed = {(each.kind, each.location): each for each in await self.list_sources(source.scope)}
        known = listed.get((source.kind, source.location))
        if known is None:
            raise NotFoundError(f"no {source.kind} source {source.location!r} is indexed in this project")
        names = list(await self.groups(source))
        for start in range(0, len(names), _GROUPS_AT_ONCE):
            await self.remove_groups(source, names[start : start + _GROUPS_AT_ONCE])
        await self.write(lambda connection: _SQL.run(connection, "delete_source", known.id))
        await self.bank.truncate_log()
        return known.passages


_COLUMNS = {"position", "title", "description", "content", "path", "line", "end_line"}
_AROUND = ("seq", "location", "project", "before_title", "before", "after_title", "after")


def _remove_group(connection: Connection, index: Index, partition: int, source_id: int, name: str) -> bool:
    """Remove a group's passages from the indexes and delete the group; return whether it existed."""
    row = _SQL.row(connection, "find_group", source_id, name)
    if row is None:
        return False
    for seq in _SQL.column(connection, "passages_of_group", *row):
        index.leave(connection, seq, partition)
    _SQL.run(connection, "delete_group", *row)
    return True
