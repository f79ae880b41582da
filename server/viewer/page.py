"""What a page is made of: the request, the template with what it shows, or where an action leads; and who may see it:
a browser that came by a one-time link, or that was given a bearer token.
"""

import hmac
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from starlette.datastructures import Headers
from starlette.types import Scope

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.team.person import Role
from swarm_memory.server.access.roles import OWNER, Caller

if TYPE_CHECKING:
    from pathlib import Path

    from swarm_memory.server.config import ResolvedSettings
    from swarm_memory.server.http.identity import Authenticator
    from swarm_memory.tools.toolbox import Toolbox


KEY_LIFETIME_S = 600.0
"""Seconds after which a link that nobody followed expires."""

SESSION_IDLE_S = 12 * 3600.0
MAX_SESSIONS = 32
"""At most this many browsers at once; the one idle for longest is forgotten first."""

MAX_NOTICES = 5


class Undo(NamedTuple):
    """The form that undoes an action: where it goes, and its fields."""

    action: str
    fields: Mapping[str, str]


class ActionResult(NamedTuple):
    """What an action did: the next page reports it, with an undo where there is one."""

    to: str
    """A path below `/ui`."""
    says: str
    undo: Undo | None = None


@dataclass(slots=True)
class Session:
    """One browser that was let in."""

    form_token: str
    """Is in every form: what is posted without it comes from another page."""
    seen: float
    caller: Caller = OWNER
    notices: "deque[ActionResult]" = field(default_factory=lambda: deque(maxlen=MAX_NOTICES))
    """What the next page reports, once."""


class BrowserSessions:
    """Lets browsers in, and recognizes them by their cookie."""

    def __init__(
        self, names: Sequence[str], known: "Authenticator | None" = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`names` are what `Host` may hold, each with or without a port; `known` lets people in by token."""
        self._names = frozenset(names)
        self.known = known
        self._now = now
        self._keys: dict[str, float] = {}
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        # Browsers do not tell a machine's cookies apart by port: each server names its own.
        self.cookie = f"swarm-memory-{secrets.token_hex(4)}"

    def new_key(self) -> str:
        """Return a key for a link that lets a browser in once."""
        key = secrets.token_urlsafe(32)
        self._keys[key] = self._now() + KEY_LIFETIME_S
        return key

    async def enter_by_token(self, token: str) -> str | None:
        """Return the cookie's value for the holder of a token; None where it is nobody's.

        Raises `NotAllowed` for a role that may not see the pages, `SwarmMemoryError`.
        """
        caller = None if self.known is None else await self.known.by_token(token.strip())
        if caller is None:
            return None
        caller.require("review", "viewing the pages")
        return self._let_in(caller)

    def enter(self, key: str) -> str | None:
        """Return the cookie's value for a browser with the key of a link; None where the key is used or expired."""
        ends = self._keys.pop(key, None)
        return None if ends is None or ends < self._now() else self._let_in(OWNER)

    def _let_in(self, caller: Caller) -> str:
        value = secrets.token_urlsafe(32)
        self._sessions[value] = Session(secrets.token_urlsafe(32), self._now(), caller)
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return value

    def session(self, scope: Scope) -> Session | None:
        """Return the session of a request; None where its browser was not let in, or was idle for too long."""
        try:
            cookies = SimpleCookie("; ".join(Headers(scope=scope).getlist("cookie")))
        except CookieError:
            return None
        value = cookies[self.cookie].value if self.cookie in cookies else ""
        session = self._sessions.get(value)
        if session is None or session.seen + SESSION_IDLE_S < self._now():
            self._sessions.pop(value, None)
            return None
        session.seen = self._now()
        self._sessions.move_to_end(value)
        return session

    def leave(self, session: Session) -> None:
        """Forget a browser."""
        self._sessions = OrderedDict((value, each) for value, each in self._sessions.items() if each is not session)

    async def caller(self, session: Session) -> Caller | None:
        """Return who uses a browser, as they are now; None if they may come in no more, and the browser is forgotten.

        Raises `SwarmMemoryError`.
        """
        if self.known is None:
            return session.caller
        caller = await self.known.still(session.caller)
        if caller is None:
            self.leave(session)
        return caller

    def is_called_by_name(self, headers: Headers) -> bool:
        """Whether `Host` is one of our names: a foreign one is that of a page that was led here by DNS rebinding."""
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return False
        name, colon, port = hosts[0].lower().rpartition(":")
        bare = name if colon and port.isdigit() else hosts[0].lower()
        return bool({hosts[0].lower(), bare} & self._names)


def is_own_form(headers: Headers, session: Session, token: str) -> bool:
    """Whether a posted form is one of ours, by its token, its origin, and what the browser says (`Sec-Fetch-Site`)."""
    origin = headers.get("origin", "")
    same = origin.partition("://")[2].lower() == headers.get("host", "").lower()
    fetched = headers.get("sec-fetch-site", "same-origin") == "same-origin"
    return same and fetched and hmac.compare_digest(token.encode(), session.form_token.encode())


MAX_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of a browser that was let in."""

    toolbox: "Toolbox"
    path: Mapping[str, str]
    """What the address names, by the names in the route's pattern."""
    query: Mapping[str, str]
    form: Mapping[str, str]
    """What was posted; empty for a page."""
    root: "Path"
    """The project's folder."""
    settings: "Callable[[], ResolvedSettings]"
    """Reads each setting with its origin."""
    wake_worker: Callable[[], None]
    """Tells the worker that a job was queued."""

    @property
    def page(self) -> int:
        """The requested page of a list, from 1. Raises `InputError`."""
        asked = self.query.get("page", "1")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 9 and 1 <= int(asked) <= MAX_PAGE):
            raise InputError(f"page must be a number from 1 to {MAX_PAGE:,}, not {asked[:20]!r}")
        return int(asked)


class Page(NamedTuple):
    """A template, and what it shows."""

    template: str
    shown: Mapping[str, object]


Handler: TypeAlias = Callable[[PageRequest], Awaitable[Page | ActionResult]]


class Route(NamedTuple):
    """A path below `/ui`, as Starlette writes it, and its handler. Requests that change something are posted."""

    path: str
    handler: Handler
    method: Literal["GET", "POST"] = "GET"
    role: Role = "review"
    """The minimum role. Nobody below the default is let in at all."""
