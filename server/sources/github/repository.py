"""A repository of GitHub as groups of passages: what it is, its tree, README and code by function, its open issues.

What is known by its ETag or its blob's SHA is not sent again; where the API takes no more requests, what is read so
far is kept and the next run goes on. The hash of a group holds what that needs.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from swarm_memory.schema.base import counted, digest
from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError, SourceUnavailable
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.code import code_group, is_generated_name
from swarm_memory.server.sources.definitions import check_installed, may_be_code
from swarm_memory.server.sources.documents import HTML_SUFFIXES, TEXT_SUFFIXES, text_group
from swarm_memory.server.sources.files import is_ignored_by_default
from swarm_memory.server.sources.github.client import RAW_FORM, SHA_FORM, Answer, GitHub, RateLimited
from swarm_memory.tools.ports.sources import ReadGroup

READER = "github-1"
"""Part of every hash: raise it when the passages of the same content change."""

ABOUT, TREE, ISSUES = "(repository)", "(tree)", "(issues)"

MAX_FILES, MAX_FILE_BYTES, MAX_BYTES = 1_000, 1_000_000, 50_000_000
MAX_SECONDS = 900.0
MAX_ISSUES, PAGE = 300, 100
MAX_PATHS, PATHS_IN_PASSAGE = 10_000, 150
MAX_TEXT_CHARS = 20_000

_NAMED = re.compile(
    r"(?:https://github\.com/|github:)?([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100}?)(?:\.git)?/?"
    r"(?:@([A-Za-z0-9][A-Za-z0-9._/+-]{0,199}))?"
)
_MODE_OF_FILES = ("100644", "100755")


class Repository(NamedTuple):
    """Which repository, and of which branch, tag or commit; None: of its default branch."""

    owner: str
    name: str
    ref: str | None = None

    @classmethod
    def of(cls, text: str) -> "Repository":
        """Return the repository of `OWNER/REPO[@REF]` or its address. Raises `InputError`."""
        found = _NAMED.fullmatch(text.strip())
        if found is None or found[2] in (".", "..") or ".." in (found[3] or ""):
            raise InputError("path must name a repository of GitHub: OWNER/REPO or OWNER/REPO@REF")
        return cls(found[1], found[2], found[3])

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"

    @property
    def location(self) -> str:
        """How its source is called."""
        return f"github:{self.full_name}" + (f"@{self.ref}" if self.ref else "")

    @property
    def api(self) -> str:
        return f"/repos/{self.owner}/{self.name}"


class _File(NamedTuple):
    path: str
    sha: str
    size: int
    is_readme: bool


@dataclass
class RepositoryReader:
    """Reads a repository through a connection; `known` are the hashes of its groups that are indexed."""

    github: GitHub
    which: Repository
    known: Mapping[str, str]
    notices: list[str] = field(default_factory=list[str])
    """What is less than all, in words."""
    _home: str = ""
    _reads_code: bool = True

    async def read(self) -> AsyncIterator[ReadGroup]:
        """Yield the groups. Raises as `GitHub.get` for what the repository itself is."""
        async for group in self._about():
            yield group
        async for group in self._files():
            yield group
        try:
            async for group in self._issues():
                yield group
        except RateLimited as error:
            self.notices.append(f"open issues are as they were: {error}")
            for group in self._unchanged(is_issue):
                yield group

    async def _about(self) -> AsyncIterator[ReadGroup]:
        etag, self._home = _told(self.known.get(ABOUT), 2)
        answer = await self.github.get(self.which.api, etag=etag)
        if not answer.is_new:
            yield self._as_it_was(ABOUT)
            return
        told = _object(answer.json)
        home = _text(told.get("html_url"))
        self._home = (
            home if home.startswith("https://") and "|" not in home else f"https://github.com/{self.which.full_name}"
        )
        yield ABOUT, _hash(answer.etag, self._home), partial(_about_passages, self.which.full_name, self._home, told)

    async def _files(self) -> AsyncIterator[ReadGroup]:
        etag, former, state = _told(self.known.get(TREE), 3)
        ref = quote(self.which.ref or "HEAD", safe="")
        answer = await self.github.get(
            f"{self.which.api}/commits/{ref}", form=SHA_FORM, etag=etag if state == "whole" else ""
        )
        commit = _sha(answer.body.decode("ascii", "replace").strip()) if answer.is_new else former
        if state == "whole" and commit == former:
            for group in self._unchanged(lambda name: name not in (ABOUT, ISSUES) and not is_issue(name)):
                yield group
            return
        tree = _object((await self.github.get(f"{self.which.api}/git/trees/{commit}", {"recursive": "1"})).json)
        entries = [_object(each) for each in _needed(tree.get("tree"), "tree")]
        if tree.get("truncated") is True:
            self.notices.append("the tree is so large that GitHub gives a part of it")
        files, fetched = self._wanted(entries), _Fetched()
        for file in files:
            if group := await self._file(file, commit, fetched):
                yield group
        state = "part" if fetched.stopped or not self._reads_code else "whole"
        if fetched.left:
            self.notices.append(
                f"{counted(fetched.left, 'file')} not read yet: {fetched.stopped}; index it again to go on"
            )
        paths = [_text(each.get("path")) for each in entries if each.get("type") == "blob"]
        if len(paths) > MAX_PATHS:
            self.notices.append(f"of {len(paths):,} paths the first {MAX_PATHS:,} are listed")
        link = f"{self._home}/tree/{commit}"
        yield (
            TREE,
            _hash(answer.etag, commit, state),
            partial(_tree_passages, self.which.full_name, link, commit, paths[:MAX_PATHS]),
        )

    def _wanted(self, entries: Sequence[Mapping[str, Any]]) -> list[_File]:
        """Return the files that are read: READMEs first, then code, what lies near the root first."""
        try:
            check_installed()
        except ConfigError as error:
            self._reads_code = False
            self.notices.append(f"code is not read: {error}")
        found = [file for each in entries if (file := self._as_file(each)) is not None]
        found.sort(key=lambda file: (not file.is_readme, file.path.count("/"), file.path))
        if len(found) > MAX_FILES:
            self.notices.append(f"of {len(found):,} files the {MAX_FILES:,} nearest to the root are read")
        return found[:MAX_FILES]

    def _as_file(self, entry: Mapping[str, Any]) -> _File | None:
        path, size = _text(entry.get("path")), entry.get("size")
        if entry.get("mode") not in _MODE_OF_FILES or not isinstance(size, int) or size > MAX_FILE_BYTES:
            return None
        pure = PurePosixPath(path)
        suffix = pure.suffix.lower()
        is_readme = pure.stem.lower() == "readme" and (not suffix or suffix in TEXT_SUFFIXES | HTML_SUFFIXES)
        is_code = self._reads_code and bool(suffix) and may_be_code(path) and not is_generated_name(path)
        if not path or len(path) > 1000 or is_ignored_by_default(path) or not (is_readme or is_code):
            return None
        return _File(path, _sha(_text(entry.get("sha"))), size, is_readme)

    async def _file(self, file: _File, commit: str, fetched: "_Fetched") -> ReadGroup | None:
        content_hash = _hash(file.sha)
        if self.known.get(file.path) == content_hash:
            return self._as_it_was(file.path)
        if not fetched.stopped:
            try:
                if fetched.has_room(file.size):
                    answer = await self.github.get(f"{self.which.api}/git/blobs/{file.sha}", form=RAW_FORM)
                    link = f"{self._home}/blob/{commit}/{quote(file.path)}"
                    return file.path, content_hash, partial(_file_passages, file, answer.body, link)
            except RateLimited as error:
                fetched.stopped = str(error)
            except NotFoundError as error:
                return file.path, content_hash, partial(_refuse, str(error))
        fetched.left += 1
        return self._as_it_was(file.path) if file.path in self.known else None

    async def _issues(self) -> AsyncIterator[ReadGroup]:
        (etag,) = _told(self.known.get(ISSUES), 1)
        path, asked = f"{self.which.api}/issues", {"state": "open", "sort": "updated", "per_page": PAGE}
        try:
            answer = await self.github.get(path, asked, etag=etag)
        except NotFoundError:
            return  # a repository may have none
        if not answer.is_new:
            for group in self._unchanged(is_issue):
                yield group
            return
        first, issues, page = answer, _issues_of(answer), 1
        while answer.has_more and page * PAGE < MAX_ISSUES:
            page += 1
            answer = await self.github.get(path, {**asked, "page": page})
            issues += _issues_of(answer)
        if answer.has_more:
            self.notices.append(f"of the open issues and pull requests the {MAX_ISSUES} newest were looked at")
        for issue in issues:
            name = f"(issue {issue['number']})"
            yield name, _hash(digest(issue)), partial(_issue_passages, name, issue)
        if issues:
            yield (
                ISSUES,
                _hash(first.etag),
                partial(_list_passages, self.which.full_name, f"{self._home}/issues", issues),
            )

    def _unchanged(self, meant: Callable[[str], bool]) -> Iterator[ReadGroup]:
        return (self._as_it_was(name) for name in self.known if meant(name))

    def _as_it_was(self, name: str) -> ReadGroup:
        return name, self.known[name], partial(_refuse, f"{name} was to be known")


@dataclass
class _Fetched:
    """How much was fetched in a run, and why no more is."""

    files: int = 0
    size: int = 0
    left: int = 0
    stopped: str = ""
    _began: float = field(default_factory=time.monotonic)

    def has_room(self, size: int) -> bool:
        """Count one more file; False, and stopped, where it would be too much."""
        self.files += 1
        self.size += size
        if self.size > MAX_BYTES or time.monotonic() - self._began > MAX_SECONDS:
            self.stopped = f"a run fetches at most {MAX_BYTES // 1_000_000} MB in {MAX_SECONDS / 60:g} minutes"
        return not self.stopped


def is_issue(name: str) -> bool:
    return name == ISSUES or (name.startswith("(issue ") and name.endswith(")"))


def _hash(*told: str) -> str:
    return "|".join((READER, *told))


def _told(content_hash: str | None, count: int) -> list[str]:
    """Return what a hash of this reader holds, or as many empty texts."""
    parts = (content_hash or "").split("|")
    return parts[1:] if parts[0] == READER and len(parts) == count + 1 else [""] * count


def _sha(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", text):
        raise InputError("GitHub's API named a commit or file by something that is no SHA")
    return text


def _refuse(reason: str) -> list[Passage]:
    raise InputError(reason)


def _passage(
    group: str, title: str, content: str, data: Mapping[str, Any], description: str = "", position: int = 0
) -> Passage:
    return Passage(
        kind="github",
        group=group,
        position=position,
        title=title[:1000] or group,
        description=description[:MAX_TEXT_CHARS],
        content=content[:MAX_TEXT_CHARS],
        data={name: value for name, value in data.items() if value not in (None, "", [])},
    )


def _about_passages(name: str, home: str, told: Mapping[str, Any]) -> list[Passage]:
    texts = {
        "url": home,
        "language": told.get("language"),
        "license": _object(told.get("license")).get("spdx_id"),
        "last_updated": told.get("pushed_at") or told.get("updated_at"),
        "topics": ", ".join(map(_text, _list(told.get("topics"))[:50])),
        "default_branch": told.get("default_branch"),
        "homepage": told.get("homepage"),
        "archived": "yes" if told.get("archived") is True else None,
    }
    known: dict[str, str | int] = {key: value[:500] for key, each in texts.items() if (value := _text(each))}
    for key in ("stargazers_count", "forks_count"):
        if isinstance(count := told.get(key), int):
            known["stars" if key.startswith("star") else "forks"] = count
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in known.items()]
    return [_passage(ABOUT, name, "\n".join(lines), known, _text(told.get("description")))]


def _tree_passages(name: str, link: str, commit: str, paths: Sequence[str]) -> list[Passage]:
    data = {"url": link, "sha": commit}
    parts = [paths[start : start + PATHS_IN_PASSAGE] for start in range(0, len(paths), PATHS_IN_PASSAGE)] or [[]]
    return [
        _passage(TREE, f"Files of {name}", "\n".join(part), data, position=position)
        for position, part in enumerate(parts)
    ]


def _file_passages(file: _File, body: bytes, link: str) -> list[Passage]:
    """Return a file's passages, each with its address and the SHA of the file. Raises `InputError`."""
    suffix = PurePosixPath(file.path).suffix.lower()
    group = text_group(file.path, body, suffix) if file.is_readme else code_group(file.path, body)
    return [
        each.model_copy(update={"kind": "github", "data": {**each.data, "url": _at_lines(link, each), "sha": file.sha}})
        for each in (group.parse() if group is not None else [])
    ]


def _at_lines(link: str, passage: Passage) -> str:
    return link if passage.line is None else f"{link}#L{passage.line}-L{passage.end_line or passage.line}"


def _issues_of(answer: Answer) -> list[dict[str, Any]]:
    """Return what is kept of the issues of a page; a pull request is none."""
    found: list[dict[str, Any]] = []
    for each in map(_object, _needed(answer.json, "list of issues")):
        number = each.get("number")
        if isinstance(number, int) and "pull_request" not in each:
            labels = [_text(_object(label).get("name"))[:100] for label in _list(each.get("labels"))][:20]
            found.append(
                {
                    "number": number,
                    "title": _text(each.get("title"))[:500],
                    "body": _text(each.get("body"))[:MAX_TEXT_CHARS],
                    "labels": labels,
                    "url": _text(each.get("html_url"))[:500],
                    "updated_at": _text(each.get("updated_at"))[:40],
                }
            )
    return found


def _issue_passages(name: str, issue: Mapping[str, Any]) -> list[Passage]:
    data = {key: issue[key] for key in ("number", "url", "labels", "updated_at")}
    description = f"open issue; {', '.join(issue['labels'])}" if issue["labels"] else "open issue"
    return [_passage(name, f"#{issue['number']} {issue['title']}", issue["body"], data, description)]


def _list_passages(name: str, link: str, issues: Sequence[Mapping[str, Any]]) -> list[Passage]:
    lines = [f"#{issue['number']} {issue['title']}" for issue in issues]
    return [_passage(ISSUES, f"Open issues of {name}", "\n".join(lines), {"url": link, "count": len(issues)})]


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _needed(value: object, what: str) -> list[object]:
    """Return a list, where less would have us remove what is indexed. Raises `SourceUnavailable`."""
    if not isinstance(value, list):
        raise SourceUnavailable(f"GitHub's API gave no {what}")
    return cast("list[object]", value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
