"""The limits of the HTTP transport; where it listens and who may come in is the server's business."""

from pydantic import Field

from swarm_memory.schema.base import Model

MIB = 1024 * 1024


class HttpSettings(Model):
    """What one client, and all clients together, may take of a server that is reached over HTTP."""

    max_body_bytes: int = Field(default=4 * MIB, ge=1024, le=64 * MIB)
    """A larger request is refused with 413 before it is parsed."""
    requests_per_s: float = Field(default=100.0, gt=0)
    """Of one client address, over time; above it 429 with Retry-After."""
    burst: int = Field(default=200, ge=1)
    """Requests that one client address may send at once."""
    max_concurrent: int = Field(default=64, ge=1)
    """Requests being answered at once; above it 503. Streams that only listen do not count."""
    max_connections: int = Field(default=256, ge=2)
    """Open connections; above it 503."""
    max_sessions: int = Field(default=128, ge=1)
    """Open MCP sessions; above it 503."""
    session_idle_s: float = Field(default=1800.0, gt=0)
    """A session that is not heard of for so long is closed."""
    header_timeout_s: float = Field(default=10.0, gt=0, le=600)
    """A connection on which no complete request header has come for so long is closed."""
    body_timeout_s: float = Field(default=20.0, gt=0, le=600)
    """A request whose body takes longer is refused with 408."""
