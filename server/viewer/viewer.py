"""The pages in the browser: who is let in, how an error becomes a page, and templates in which every text is
escaped.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from datetime import datetime
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm_memory.schema.base import counted, is_teams
from swarm_memory.schema.errors import (
    ConfigError,
    InputError,
    NotAllowed,
    NotFoundError,
    StorageError,
    SwarmMemoryError,
)
from swarm_memory.server.access.roles import SCOPE_KEY, caller_of, serving
from swarm_memory.server.config import ResolvedSettings
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.viewer.page import (
    ActionResult,
    BrowserSessions,
    Handler,
    PageRequest,
    Route,
    Session,
    is_own_form,
)
from swarm_memory.server.viewer.pages import lists, memories, overview, review, sessions
from swarm_memory.tools.text.cleaning import clean, one_line

MAX_TEXT = 8000
"""Characters shown of one text of a task; the middle of a longer one is left out."""


def environment(base: str, versions: Mapping[str, str], now: Callable[[], datetime]) -> Environment:
    """Return the environment of the templates: every text is escaped, without bidirectional and hidden characters."""
    made = Environment(
        loader=PackageLoader("swarm_memory.server.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    shared: dict[str, Any] = made.globals
    shared |= {"base": base, "now": now}
    shared["static"] = {name: f"{base}/static/{version}/{name}" for name, version in versions.items()}
    filters: dict[str, Any] = made.filters
    filters["counted"] = counted
    filters["prose"] = render_code_spans
    filters["one_line"] = one_line
    filters["cut"] = partial(clean, max_chars=MAX_TEXT)
    filters["address"] = _address
    tests: dict[str, Any] = made.tests
    tests["teams"] = is_teams
    return made


def _shown(value: object) -> object:
    if value is None:
        return ""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render_code_spans(text: str) -> Markup:
    """Return a text with its parts in backticks marked up as code."""
    parts = clean(text).split("`")
    if len(parts) % 2 == 0:  # the last backtick has no partner
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _address(values: Mapping[str, object]) -> str:
    """Return the query of an address, without empty values."""
    return urlencode({name: str(value) for name, value in values.items() if value})


def version_of(data: bytes) -> str:
    """Return a digest that changes with the data, as a part of an address or as a tag."""
    return hashlib.sha256(data).hexdigest()[:16]


BASE = "/ui"
PACKAGE = "swarm_memory.server.viewer"
MAX_FORM_BYTES = 256 * 1024
MAX_FIELDS = 400

PAGES: tuple[tuple[str, str, tuple[Route, ...]], ...] = (
    ("Overview", "/", overview.ROUTES),
    ("Memories", "/memories", memories.ROUTES),
    ("Review", "/review", review.ROUTES),
    ("Sessions", "/sessions", sessions.ROUTES),
    ("Tools", "/tools", lists.TOOLS),
    ("Preview", "/ask", memories.ASK),
    ("Proposals", "/proposals", review.PROPOSALS),
    ("Sources", "/sources", lists.SOURCES),
    ("Jobs", "/jobs", lists.JOBS),
    ("Benchmarks", "/benchmarks", lists.BENCHMARKS),
    ("People", "/people", lists.PEOPLE),
    ("Settings", "/settings", lists.SETTINGS),
)
"""Name, path and routes of each entry of the menu, in its order; the first five are always visible."""

_STATIC = {"viewer.css": "text/css", "viewer.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with `no-referrer` a browser names no origin when it posts a form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_STATUSES: tuple[tuple[type[SwarmMemoryError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (InputError, HTTPStatus.BAD_REQUEST),
    (NotAllowed, HTTPStatus.FORBIDDEN),
    (ConfigError, HTTPStatus.CONFLICT),
    (StorageError, HTTPStatus.SERVICE_UNAVAILABLE),
    (SwarmMemoryError, HTTPStatus.BAD_GATEWAY),
)
"""First match wins."""

log = logging.getLogger(__name__)


class Viewer:
    """The ASGI application for all that is below `/ui`."""

    def __init__(
        self,
        bank: ServedBank,
        access: BrowserSessions,
        settings: Callable[[], ResolvedSettings],
        now: Callable[[], datetime],
        *,
        read_only: bool = False,
        holds: Callable[[], AbstractAsyncContextManager[object]] = nullcontext,
    ) -> None:
        """`holds` opens what the pages must hold open themselves because no other server does."""

        @asynccontextmanager
        async def held(_: Starlette) -> AsyncGenerator[None]:
            async with holds():
                yield

        self._bank = bank
        self._access = access
        self._settings = settings
        self._read_only = read_only
        self._static = {name: files(PACKAGE).joinpath("static", name).read_bytes() for name in _STATIC}
        self._pages = environment(BASE, {name: version_of(data) for name, data in self._static.items()}, now)
        self._app: ASGIApp = Starlette(
            routes=[
                StarletteRoute(f"{BASE}/enter", self._enter, methods=["GET", "POST"]),
                StarletteRoute(f"{BASE}/leave", self._leave, methods=["POST"]),
                StarletteRoute(f"{BASE}/static/{{version}}/{{name}}", self._file, methods=["GET"]),
                *(
                    StarletteRoute(
                        BASE if each.path == "/" else BASE + each.path,
                        self._endpoint(each, path),
                        methods=[each.method],
                    )
                    for _, path, routes in PAGES
                    for each in routes
                ),
            ],
            exception_handlers={HTTPException: self._refused, Exception: self._failed},
            lifespan=held,
        )

    def link(self, origin: str) -> str:
        """Return the address that lets a browser in once, at a server whose address begins with `origin`."""
        return f"{origin}{BASE}/enter?{urlencode({'key': self._access.new_key()})}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._app(scope, receive, send)

    def _endpoint(self, route: Route, menu: str) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = await self._let_in(request)
            caller = caller_of(request)
            try:
                caller.require(route.role, "this")
                with serving(caller):
                    return await self._answer(request, route.handler, menu, session)
            except SwarmMemoryError as error:
                status = next(status for kind, status in _STATUSES if isinstance(error, kind))
                return self._error(request, status, str(error), session)

        return answer

    async def _answer(self, request: Request, handler: Handler, menu: str, session: Session) -> Response:
        posted = request.method == "POST"
        form = await _form(request) if posted else {}
        if posted and not is_own_form(request.headers, session, form.pop("form_token", "")):
            raise HTTPException(403, "This form belongs to another page or an expired session: reload the page.")
        if posted and self._read_only:
            raise HTTPException(403, "These pages are read-only; to edit, run `swarm-memory ui` without --read-only.")
        bank = self._bank
        with bank.serving():
            toolbox = await (bank.toolbox() if posted else bank.for_reading())
            query = {name: clean(value) for name, value in request.query_params.items()}
            asked = PageRequest(toolbox, request.path_params, query, form, bank.root, self._settings, bank.wake_worker)
            found = await handler(asked)
        if isinstance(found, ActionResult):
            session.notices.append(found)
            return RedirectResponse(BASE + found.to.rstrip("/"), 303, _HEADERS)
        joined = toolbox.settings.team.url is not None  # then the team's memories here are copies
        shown = self._framed(request, menu, session, toolbox.scope.project) | {"joined": joined} | dict(found.shown)
        return self._rendered(request, found.template, shown)

    async def _let_in(self, request: Request) -> Session:
        """Return the session of a request. Raises `HTTPException`."""
        if not self._access.is_called_by_name(request.headers):
            raise HTTPException(421, "This server does not answer to that name.")
        session = await self._session(request)
        if session is None:
            raise HTTPException(401)
        return session

    async def _session(self, request: Request) -> Session | None:
        """Return the session of a request, and record in the request who sent it; None where they may not come in."""
        session = self._access.session(request.scope)
        if session is not None and SCOPE_KEY not in request.scope:
            caller = await self._access.caller(session)
            if caller is None:
                return None
            request.scope[SCOPE_KEY] = caller
        return session

    def _framed(self, request: Request, menu: str, session: Session, project: str) -> dict[str, object]:
        """Return what frames every page."""
        notices = list(session.notices)
        session.notices.clear()
        return {
            "menu": [
                (name, BASE + path.rstrip("/"), path == menu)
                for name, path, routes in PAGES
                if caller_of(request).may(routes[0].role)
            ],
            "project": project,
            "read_only": self._read_only,
            "form_token": session.form_token,
            "here": request.url.path,
            "query": request.query_params,
            "notices": notices,
        }

    def _rendered(self, request: Request, template: str, shown: Mapping[str, object], status: int = 200) -> Response:
        body = self._pages.get_template(template).render(shown).encode()
        tag = f'"{version_of(body)}"'
        if status == 200 and request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=_HEADERS)
        return Response(body, status, {**_HEADERS, "etag": tag}, "text/html")

    def _error(self, request: Request, status: int, text: str, session: Session | None = None) -> Response:
        shown: dict[str, object] = {"phrase": HTTPStatus(status).phrase, "text": text, "inside": session is not None}
        if session is not None:
            shown |= self._framed(request, "", session, self._bank.root.name)
        return self._rendered(request, "error.html", shown, status)

    async def _enter(self, request: Request) -> Response:
        """Let a browser in by a page of ours: on a redirect that another site began, a new cookie is not sent."""
        if not self._access.is_called_by_name(request.headers):
            raise HTTPException(421, "This server does not answer to that name.")
        form = await _form(request) if request.method == "POST" else {}
        try:
            by_token = await self._access.enter_by_token(form["token"]) if form.get("token") else None
        except SwarmMemoryError as error:
            raise HTTPException(403 if isinstance(error, NotAllowed) else 503, str(error)) from error
        value = by_token or self._access.enter(request.query_params.get("key", ""))
        if value is None:
            raise HTTPException(401, "That link has been used or is too old." if not form else "That is not the token.")
        answer = self._rendered(request, "entered.html", {})
        answer.set_cookie(self._access.cookie, value, path=BASE, httponly=True, samesite="strict")
        return answer

    async def _leave(self, request: Request) -> Response:
        session = await self._let_in(request)
        if not is_own_form(request.headers, session, (await _form(request)).get("form_token", "")):
            raise HTTPException(403)
        self._access.leave(session)
        raise HTTPException(401, "Signed out. Open a new link to sign in again.")

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404)
        headers = {**_HEADERS, "cache-control": "max-age=31536000, immutable"}
        return Response(self._static[name], 200, headers, _STATIC[name])

    async def _refused(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 401:
            says = "" if error.detail == "Unauthorized" else error.detail
            shown = {"says": says, "takes_token": self._access.known is not None}
            return self._rendered(request, "enter.html", shown, 401)
        session = await self._session(request) if self._access.is_called_by_name(request.headers) else None
        return self._error(request, error.status_code, error.detail, session)

    async def _failed(self, request: Request, error: Exception) -> Response:
        log.error("a page failed: %s %s", request.method, request.url.path, exc_info=error)
        return self._error(request, 500, "Internal error; see the log next to the database.")


async def _form(request: Request) -> dict[str, str]:
    """Return a posted form; of a repeated field, the last value. Raises `HTTPException`."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > MAX_FORM_BYTES:
                raise HTTPException(413, f"The form is larger than {MAX_FORM_BYTES // 1024} KB.")
    except ClientDisconnect as error:
        raise HTTPException(400) from error
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "That is not a valid form.") from error
    return {name: clean(value) for name, value in pairs}
