"""A local server that speaks the part of GitHub's REST API that is used: an archive, renamed repositories."""

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from loopback import Asked, Loopback, Reply

Json = dict[str, Any]


def blob_sha(content: bytes) -> str:
    """Return the SHA of a file as Git has it."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class GitHubApi(Loopback):
    """One repository, `acme/shop`, whose files a test changes; every request is kept."""

    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    about: Json = field(default_factory=dict[str, Any])
    refs: tuple[str, ...] = ("HEAD", "main", "v1.0")
    token: str | None = None
    """Where it is set, no other one is taken."""
    answers: dict[str, tuple[int, Mapping[str, str], bytes]] = field(default_factory=dict[str, Any])
    """By path: what is answered instead."""
    requests: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Path with its query, and the status of the answer."""
    headers: list[Mapping[str, str]] = field(default_factory=list[Mapping[str, str]])

    def __post_init__(self) -> None:
        self.listen()

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode(), usedforsecurity=False).hexdigest()

    def asked(self) -> list[tuple[str, int]]:
        """Return the requests since the last look: paths without the repository's, and how they were answered."""
        found, self.requests = self.requests, []
        return [(path.removeprefix("/repos/acme/shop"), status) for path, status in found]

    def reply(self, asked: Asked) -> Reply:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        self.headers.append(headers)
        status, answered, body = self._answered(asked.path, headers)
        self.requests.append((asked.path, status))
        return Reply(status, body, answered)

    def _answered(self, path: str, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        if path in self.answers:
            return self.answers[path]
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            return 401, {}, b'{"message": "Bad credentials"}'
        own = path.removeprefix("/repos/acme/shop")
        match own.strip("/").split("/"):
            case [""] if own != path:
                return 200, {}, json.dumps(self._about()).encode()
            case ["commits", ref] if ref in self.refs:
                return 200, {}, self.commit.encode()
            case ["tarball", sha] if sha == self.commit:
                return 302, {"location": f"{self.url}/archives/{sha}"}, b""
            case ["archives", _]:
                return 200, {}, archived(self.files)
            case _:
                return 404, {}, b'{"message": "Not Found"}'

    def _about(self) -> Json:
        return {
            "full_name": "acme/shop",
            "html_url": "https://github.com/acme/shop",
            "description": "A small shop with a till",
            "stargazers_count": 321,
            "language": "Python",
            "license": {"spdx_id": "MIT", "name": "MIT License"},
            "pushed_at": "2026-03-01T10:00:00Z",
            "topics": ["shop", "till"],
            "default_branch": "main",
            **self.about,
        }


def archived(files: Mapping[str, bytes]) -> bytes:
    """Return a tarball as GitHub makes it: all in one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(f"acme-shop-abc123/{path}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("acme-shop-abc123/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return packed.getvalue()
