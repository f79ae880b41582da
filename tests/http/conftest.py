"""Servers over HTTP for tests."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.http.http_server import HttpServer, serving_http


@pytest.fixture
def serve(tmp_path: Path, home: Path) -> Generator[Callable[..., HttpServer]]:
    """Return a function that starts a server for the test's own project, with further command-line options."""
    with ExitStack() as running:
        yield lambda *options: running.enter_context(serving_http(tmp_path, home, *options))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[HttpServer]:
    """A server with the default limits, shared by the tests of a module."""
    with serving_http(tmp_path_factory.mktemp("shared"), tmp_path_factory.mktemp("shared-home")) as running:
        yield running
