"""The server over HTTP at rest: no thread of it wakes up until something happens, and its answers have a date."""

import sys
from collections.abc import Callable
from email.utils import parsedate_to_datetime

import pytest
from http_server import INITIALIZE, HttpServer

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"])]


@pytest.mark.skipif(sys.platform != "linux", reason="wake-ups are counted by /proc")
async def test_a_server_over_http_does_not_wake_up_while_nothing_happens(
    serve: Callable[..., HttpServer], rests: Callable[[int], bool]
) -> None:
    server = serve()
    async with server.client() as client:
        assert not (await client.call_tool("retrieve_memories", {"query": "a flaky test"})).is_error
    assert rests(server.process.pid)


def test_each_answer_has_the_date_of_its_time(serve: Callable[..., HttpServer]) -> None:
    server = serve()
    first = parsedate_to_datetime(server.request(body=INITIALIZE).headers["date"])
    while (later := parsedate_to_datetime(server.request(body=INITIALIZE).headers["date"])) == first:
        pass
    assert 1 <= (later - first).total_seconds() <= 3
