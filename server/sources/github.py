"""A repository of GitHub as groups of passages: what it is, its paths, READMEs and code by function.

Its REST API is asked within bounds of time and size, and what it says is untrusted. All files come in one archive, of
a commit that is not indexed yet.
"""

import asyncio
import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlsplit

import httpx

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError, SourceUnavailable
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.code import GENERATED_NAME, LANGUAGES, code_group, language_of, missing
from swarm_memory.server.sources.documents import HTML_SUFFIXES, TEXT_SUFFIXES, text_group
from swarm_memory.server.sources.files import faulty, is_ignored_by_default, storable
from swarm_memory.server.sources.tool_lists import list_of, mapping_of, text_of
from swarm_memory.tools.ports.sources import ReadGroup

TOKEN_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN")
"""The token stands nowhere else, and goes to the API's host alone."""

JSON_FORM, SHA_FORM = "application/vnd.github.json", "application/vnd.github.sha"
VERSION = "2022-11-28"

TIMEOUT_S = 30.0
REQUEST_LIMIT_S = 300.0
"""Of one request, with all that it is led to."""

MAX_ANSWER_BYTES, MAX_ARCHIVE_BYTES = 20_000_000, 50_000_000
MAX_UNPACKED_BYTES = 500_000_000
"""Of an archive: a few kilobytes can be made to unpack to gigabytes."""

MAX_REDIRECTS = 3
"""A renamed repository leads to another address, and an archive lies at one."""

READER = "github-3"
"""Part of every hash: raise it when the passages of the same content change."""

ABOUT, TREE = "(repository)", "(tree)"
MAX_FILES, MAX_FILE_BYTES = 1_000, 1_000_000
MAX_PATHS, PATHS_IN_PASSAGE = 10_000, 150
MAX_TEXT_CHARS = 20_000

_NAMED = re.compile(
    r"(?:https://github\.com/|github:)?([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100}?)(?:\.git)?/?"
    r"(?:@([A-Za-z0-9][A-Za-z0-9._/+-]{0,199}))?"
)


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


class GitHub:
    """A connection to the API. Raises `ConfigError` for an address that is neither HTTPS nor this machine's.

    The token goes to the API's host alone: httpx leaves it out where a redirection leads to another.
    """

    def __init__(self, base_url: str, token: str | None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1")):
            raise ConfigError("sources.github_url must begin with https://, such as https://api.github.com")
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigError(f"the token in {' or '.join(TOKEN_VARIABLES)} has characters that none can have")
        self._own, self._has_token = f"{parts.scheme}://{parts.netloc}", bool(token)
        self._archives = f"https://codeload.{parts.netloc.removeprefix('api.')}"
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"user-agent": "swarm-memory", "x-github-api-version": VERSION}
            | ({"authorization": f"Bearer {token}"} if token else {}),
            timeout=TIMEOUT_S,
            trust_env=False,
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            event_hooks={"request": [self.check]},
        )

    @classmethod
    def of_environment(cls, base_url: str) -> Self:
        return cls(base_url, next(filter(None, (os.environ.get(name, "").strip() for name in TOKEN_VARIABLES)), None))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, path: str, *, form: str = JSON_FORM, max_bytes: int = MAX_ANSWER_BYTES) -> bytes:
        """Ask for a path; return what it answers.

        Raises `NotFoundError`, `ConfigError` for a refused token, `SourceUnavailable`. No error quotes what the API
        said: it may echo the token.
        """
        read = bytearray()
        try:
            async with (
                asyncio.timeout(REQUEST_LIMIT_S),
                self._client.stream("GET", path, headers={"accept": form}) as response,
            ):
                if response.status_code != 200:
                    raise self._refusal(response)
                async for part in response.aiter_bytes():
                    read += part
                    if len(read) > max_bytes:
                        raise SourceUnavailable(f"GitHub's API answered with more than {max_bytes:,} bytes")
                return bytes(read)
        except (TimeoutError, httpx.HTTPError) as error:
            raise SourceUnavailable(f"GitHub's API at {self._own} gave no answer ({type(error).__name__})") from None

    async def check(self, request: httpx.Request) -> None:
        """Refuse a request, such as one that a redirection leads to, of any host but the API's and its archives'."""
        if f"{request.url.scheme}://{request.url.netloc.decode()}" not in (self._own, self._archives):
            raise SourceUnavailable("GitHub's API pointed to another host: that one is not asked")

    def _refusal(self, response: httpx.Response) -> Exception:
        status, names = response.status_code, " or ".join(TOKEN_VARIABLES)
        is_limit = response.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in response.headers
        if status == 429 or (status == 403 and is_limit):
            advice = "" if self._has_token else f"; with a token in {names} it takes 5,000 an hour"
            return SourceUnavailable(f"GitHub's API takes no more requests within this hour{advice}")
        if status == 401:
            return ConfigError(f"GitHub refused the token in {names}")
        if 400 <= status < 500:
            with_it = "the token may not read it" if self._has_token else f"it needs a token in {names}"
            return NotFoundError(f"GitHub shows no such thing (HTTP {status}): the name is wrong, or {with_it}")
        return SourceUnavailable(f"GitHub's API failed (HTTP {status})")


@dataclass
class RepositoryReader:
    """Reads a repository through a connection; `known` are the hashes of its groups that are indexed."""

    github: GitHub
    which: Repository
    known: Mapping[str, str]
    notices: list[str] = field(default_factory=list[str])
    """What is less than all, in words."""

    async def read(self) -> AsyncIterator[ReadGroup]:
        """Yield the groups. Raises as `GitHub.get`."""
        api = f"/repos/{self.which.full_name}"
        about = mapping_of(_json(await self.github.get(api)))
        home = text_of(about.get("html_url"))
        home = home if home.startswith("https://") else f"https://github.com/{self.which.full_name}"
        yield ABOUT, f"{READER}|{digest([home, about])}", partial(_about_passages, self.which.full_name, home, about)
        async for group in self._files(api, home):
            yield group

    async def _files(self, api: str, home: str) -> AsyncIterator[ReadGroup]:
        unread = [language.name for language in LANGUAGES if missing(language)]
        if unread:
            self.notices.append(f"not read is {', '.join(unread)}: pip install 'swarm-memory[code]'")
        ref = quote(self.which.ref or "HEAD", safe="")
        said = await self.github.get(f"{api}/commits/{ref}", form=SHA_FORM)
        commit = said.decode("ascii", "replace").strip()
        if not re.fullmatch(r"[0-9a-f]{40}(?:[0-9a-f]{24})?", commit):
            raise InputError("GitHub's API named a commit by something that is no SHA")
        state = "|".join((READER, commit, *unread))
        if self.known.get(TREE) == state:
            for name, content_hash in self.known.items():
                if name != ABOUT:
                    yield name, content_hash, faulty(name, "was to be known").parse
            return
        archive = await self.github.get(f"{api}/tarball/{commit}", max_bytes=MAX_ARCHIVE_BYTES)
        paths, files = await asyncio.to_thread(_unpacked, archive)
        if len(paths) > MAX_PATHS:
            self.notices.append(f"of {len(paths):,} paths the first {MAX_PATHS:,} are listed")
        if len(files) > MAX_FILES:
            self.notices.append(f"of {len(files):,} files the {MAX_FILES:,} nearest to the root are read")
        nearest = sorted(files, key=lambda file: (not _is_readme(file[0]), file[0].count("/"), file[0]))
        for path, data in nearest[:MAX_FILES]:
            link = f"{home}/blob/{commit}/{quote(path)}"
            sha = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()  # as Git names it
            yield path, f"{READER}|{sha}", partial(_file_passages, path, data, link, sha)
        about, listed = {"url": f"{home}/tree/{commit}", "sha": commit}, paths[:MAX_PATHS]
        starts = range(0, max(1, len(listed)), PATHS_IN_PASSAGE)
        parts = ("\n".join(listed[start : start + PATHS_IN_PASSAGE]) for start in starts)
        title = f"Files of {self.which.full_name}"
        tree = [_passage(TREE, title, part, about, position=position) for position, part in enumerate(parts)]
        yield TREE, state, partial(list[Passage], tree)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise SourceUnavailable("GitHub's API answered with something that is not JSON") from None


def _unpacked(archive: bytes) -> tuple[list[str], list[tuple[str, bytes]]]:
    """Return the paths of an archive, and the files in it that are wanted. Raises `SourceUnavailable`."""
    paths: list[str] = []
    files: list[tuple[str, bytes]] = []
    size = 0
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(archive)) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as opened,
        ):
            for member in opened:
                size += member.size
                if size > MAX_UNPACKED_BYTES:
                    raise SourceUnavailable(f"the archive unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
                path = storable(member.name.partition("/")[2])  # all lies in one folder, which is named by the commit
                if not member.isreg() or not 0 < len(path) <= 1000:
                    continue
                paths.append(path)
                content = opened.extractfile(member) if member.size <= MAX_FILE_BYTES and _is_wanted(path) else None
                if content is not None:
                    files.append((path, content.read()))
            while unpacked.read(1 << 20):  # to its end, where it says whether all of it came
                pass
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise SourceUnavailable(f"GitHub's API gave no archive that can be read ({type(error).__name__})") from None
    return paths, files


def _is_readme(path: str) -> bool:
    pure = PurePosixPath(path)
    suffix = pure.suffix.lower()
    return pure.stem.lower() == "readme" and (not suffix or suffix in TEXT_SUFFIXES | HTML_SUFFIXES)


def _is_wanted(path: str) -> bool:
    language = language_of(path)
    is_code = language is not None and not missing(language) and not GENERATED_NAME.search(path)
    return (is_code or _is_readme(path)) and not is_ignored_by_default(path)


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


def _about_passages(name: str, home: str, about: Mapping[str, Any]) -> list[Passage]:
    texts = {
        "url": home,
        "language": about.get("language"),
        "license": mapping_of(about.get("license")).get("spdx_id"),
        "last_updated": about.get("pushed_at") or about.get("updated_at"),
        "topics": ", ".join(map(text_of, list_of(about.get("topics"))[:50])),
        "default_branch": about.get("default_branch"),
    }
    known: dict[str, str | int] = {key: value[:500] for key, each in texts.items() if (value := text_of(each))}
    if isinstance(stars := about.get("stargazers_count"), int):
        known["stars"] = stars
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in known.items()]
    return [_passage(ABOUT, name, "\n".join(lines), known, text_of(about.get("description")))]


def _file_passages(path: str, data: bytes, link: str, sha: str) -> list[Passage]:
    """Return a file's passages, each with its address and the SHA of the file. Raises `InputError`."""
    group = code_group(path, data)
    if _is_readme(path):
        group = text_group(path, data, PurePosixPath(path).suffix.lower())
    passages: list[Passage] = []
    for each in group.parse() if group is not None else []:
        url = link if each.line is None else f"{link}#L{each.line}-L{each.end_line or each.line}"
        passages.append(each.model_copy(update={"kind": "github", "data": {**each.data, "url": url, "sha": sha}}))
    return passages
