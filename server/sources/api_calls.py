"""Operations of APIs that are indexed, as functions to be called by name: arguments are checked by the schema of the
description, and go in one bounded HTTP request to the address that it names.

Nothing here is made by `exec`, and nothing in the product calls an operation by itself.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import httpx
from jsonschema import Draft202012Validator, exceptions
from pydantic import JsonValue
from referencing import Registry

from swarm_memory.schema.errors import InputError, NotFoundError, SourceUnavailable
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.files import decode, is_binary
from swarm_memory.server.sources.tool_lists import list_of, mapping_of, text_of
from swarm_memory.tools.sources.sources import MAX_K, search_sources
from swarm_memory.tools.text.cleaning import one_line, shorten
from swarm_memory.tools.toolbox import Toolbox

TIMEOUT_S = 30.0
"""Of one call, from its first byte to its last."""
MAX_ANSWER_BYTES = 1_000_000
CHARS_IN_TOKEN = 4

_OURS = ("host", "content-length", "content-type", "transfer-encoding")
"""Headers that no argument sets: a description may name anything as one."""

_UNCHECKED = ("pattern", "patternProperties", "unevaluatedItems", "unevaluatedProperties")
_NAMED, _VALUES = ("properties", "dependentSchemas", "dependentRequired"), ("enum", "const")
"""Keywords of a schema below which keys are names, and those that hold values."""


class ApiAnswer(NamedTuple):
    """What an API answered; untrusted."""

    status: int
    url: str
    content_type: str
    text: str
    """At most as many tokens as `output.max_tokens` says; more is left out of the middle, and said there."""


class ApiToolbox:
    """The operations of the APIs that are indexed in a project: `await ApiToolbox(toolbox).call(name, arguments)`."""

    def __init__(self, toolbox: Toolbox, headers: Mapping[str, str] | None = None, host: str | None = None) -> None:
        """`headers`, such as one with a key, go to `host`, maybe HOST:PORT, alone: a description may name any other."""
        self._toolbox, self._headers, self._host = toolbox, headers or {}, host

    async def call(self, name: str, arguments: Mapping[str, JsonValue]) -> ApiAnswer:
        """Call the operation of a name: its id, or `GET /path` where it has none. No redirection is followed.

        Raises `NotFoundError`, `InputError` for arguments that its schema refuses or a description without an address,
        `SourceUnavailable` for no answer within `TIMEOUT_S`.
        """
        request = request_of(await self._found(name), arguments, self._headers)
        if self._headers:
            _check_receiver(name, request.url, self._host)
        read = bytearray()
        try:
            async with asyncio.timeout(TIMEOUT_S), httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                response = await client.send(request, stream=True)
                async for part in response.aiter_bytes():
                    read += part
                    if len(read) > MAX_ANSWER_BYTES:
                        break
                await response.aclose()
        except (TimeoutError, httpx.HTTPError) as error:
            why = type(error).__name__
            raise SourceUnavailable(f"{name} at {request.url.host} gave no answer that can be read ({why})") from None
        data = bytes(read[:MAX_ANSWER_BYTES])
        text = f"({len(data):,} bytes that are no text)" if is_binary(data) else decode(data).text
        shown = shorten(text, CHARS_IN_TOKEN * self._toolbox.settings.output.max_tokens)
        cut = f"\n… [cut off after {MAX_ANSWER_BYTES:,} bytes]" if len(read) > MAX_ANSWER_BYTES else ""
        kind = response.headers.get("content-type", "")
        return ApiAnswer(response.status_code, str(request.url), kind, shown + cut)

    async def _found(self, name: str) -> Passage:
        """Return the operation of a name. Raises `NotFoundError`, and `InputError` where several sources have one."""
        alone = replace(self._toolbox, chat=None, reranker=None)  # no model is asked for what has a name
        hits = (await search_sources(alone, name, kind="api", k=MAX_K)).hits
        found = [hit for hit in hits if hit.passage.title == name]
        if not found:
            near = ", ".join(dict.fromkeys(hit.passage.title for hit in hits[:5])) or "none is indexed"
            raise NotFoundError(f"no operation is called {name!r}: {near}")
        if any(hit.passage.data != found[0].passage.data for hit in found):
            where = ", ".join(f"{hit.passage.group} of {hit.location}" for hit in found)
            raise InputError(f"several operations are called {name!r} ({where}): take a source out of the index")
        return found[0].passage


def request_of(operation: Passage, arguments: Mapping[str, JsonValue], headers: Mapping[str, str]) -> httpx.Request:
    """Return the request that calls an operation. Raises `InputError` for what its schema or its address refuses."""
    schema, path = mapping_of(operation.data.get("input_schema")), text_of(operation.data.get("path"))
    _check(schema, arguments)
    query: dict[str, Any] = {}
    sent, body = dict(headers), dict[str, Any]()
    for name, value in arguments.items():
        place = text_of(mapping_of(schema["properties"][name]).get("in")) or "unknown"
        parts: list[Any] = list_of(value) if place == "query" and isinstance(value, list) else [value]
        texts = [each if isinstance(each, str) else json.dumps(each) for each in parts]
        is_plain = all(isinstance(each, str | int | float) for each in parts)
        is_json = place == "body" or (place.endswith("+json") and place.split() == [place])
        if is_json and value is not None:  # for which no body would be sent
            body["json"] = value
            sent.update({} if place == "body" else {"content-type": place})
        elif is_plain and place == "path" and texts[0] not in ("", ".", ".."):  # which would lead to another operation
            path = path.replace(f"{{{name}}}", quote(texts[0], safe=""))
        elif is_plain and place == "query":
            query[name] = texts
        elif is_plain and place == "header" and name.lower() not in {*_OURS, *map(str.lower, headers)}:
            sent[name] = texts[0]
        else:
            raise InputError(f"{name} is {value!r} and goes into the {place}: that cannot be asked")
    base = _base_of(operation)
    if "{" in path or ".." in path.split("/"):
        raise InputError(f"{path} is no path: an argument is missing, or its description is at fault")
    try:
        url = base.copy_with(path=f"{base.path.rstrip('/')}/{path.lstrip('/')}", params=query or None)
        return httpx.Request(text_of(operation.data.get("method")), url, headers=sent, **body)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise InputError(f"no request can be made of this: {one_line(str(error), 200)}") from None


def _check_receiver(name: str, url: httpx.URL, host: str | None) -> None:
    """Raise `InputError` where headers would go elsewhere than to `host`, or so that others can read them."""
    with suppress(ValueError):  # of a host or port that is none
        wanted, port = urlsplit(f"//{host or ''}"), url.port or (443 if url.scheme == "https" else 80)
        if wanted.hostname == url.host and wanted.port in (None, port):
            if url.scheme == "https" or url.host in ("127.0.0.1", "::1", "localhost"):
                return
            raise InputError(f"{name} is at {url}, where others could read the headers: they go over https")
    raise InputError(f"{name} is at {url.netloc.decode()}: name this host where headers are to go to it")


def _base_of(operation: Passage) -> httpx.URL:
    """Return the address that an operation was indexed with: http or https, a host, maybe a path, and nothing else."""
    said = next(map(text_of, list_of(operation.data.get("servers"))), "")
    with suppress(httpx.InvalidURL):
        base = httpx.URL(said)
        if base.scheme in ("http", "https") and base.host and not (base.userinfo or base.query or "{" in said):
            return base
    raise InputError(
        f"{operation.title} has no address that can be asked ({one_line(said, 100) or 'none'}): give its description "
        "`servers` (beside `endpoints` it is `base_url`) with http:// or https://, and index it again"
    )


def _check(schema: Mapping[str, Any], arguments: Mapping[str, JsonValue]) -> None:
    """Raise `InputError` for arguments that a schema refuses, and for a schema that is none."""
    known = mapping_of(schema.get("properties"))
    if unknown := [name for name in arguments if name not in known]:
        raise InputError(f"it takes no {', '.join(unknown)}: {', '.join(known) or 'nothing'}")
    checked = _checked(schema)
    try:
        Draft202012Validator.check_schema(checked)
    except exceptions.SchemaError as error:
        raise InputError(f"its description holds no JSON schema: {one_line(error.message, 200)}") from None
    validator: Any = Draft202012Validator(checked, registry=Registry())
    wrong = cast("Any", exceptions).best_match(validator.iter_errors(dict(arguments)))
    if wrong is not None:
        raise InputError(f"{'.'.join(map(str, wrong.absolute_path)) or 'arguments'}: {one_line(wrong.message, 300)}")


def _checked(schema: object, are_names: bool = False) -> Any:
    """Return a schema without `_UNCHECKED` and `$ref`, `$schema` …: a description is anybody's, and these would have
    the validator fetch what they name, follow another draft, or compute for long. Of `are_names` no key is a keyword.
    """
    if isinstance(schema, list):
        return [_checked(each) for each in list_of(cast(object, schema))]
    if not isinstance(schema, dict):
        return schema
    found = mapping_of(cast(object, schema))
    if are_names:
        return {name: _checked(part) for name, part in found.items()}
    kept = {key: part for key, part in found.items() if key not in _UNCHECKED and not key.startswith("$")}
    return {key: part if key in _VALUES else _checked(part, key in _NAMED) for key, part in kept.items()}
