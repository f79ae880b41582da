"""Which names a server answers to: the `Host` and `Origin` of a request, against DNS rebinding and foreign pages."""

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from swarm_memory.schema.errors import ConfigError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address to listen on. A name other than `localhost` is taken as not."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_names(host: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return the names, each with or without a port, that `Host` may hold for a server that listens on `host`.

    On loopback they are known, on another address they must be given. Raises `ConfigError`.
    """
    names = tuple(name.strip().lower() for name in given)
    for name in names:
        if not _AUTHORITY.fullmatch(name):
            raise ConfigError(f"--allow-host takes a name or address with or without a port, not {name[:80]!r}")
    if is_loopback(host):
        return (*LOOPBACK_NAMES, *names)
    if not names:
        raise ConfigError(
            f"{host} can be reached from other machines: say by --allow-host under which names clients will call it, "
            "such as --allow-host memory.example.org"
        )
    return names


def host_allowed(host: str, names: Iterable[str]) -> bool:
    """Tell whether a `Host` header is one of the names; a name without a port stands for every port."""
    match = _AUTHORITY.fullmatch(host)
    return match is not None and any(name in (host.lower(), match[1].lower()) for name in names)


def origin_allowed(origin: str, host: str) -> bool:
    """Tell whether a page of this `Origin` is our own: served under the very `Host` that it calls."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    plain = origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")
    return plain and parts.netloc.lower() == host.lower()
