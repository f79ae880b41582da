"""The settings of sources: how they are found and put in order, and what may be read or started."""

from typing import Literal

from pydantic import Field, SecretStr

from swarm_memory.schema.base import Model, Unit


class SourceSettings(Model):
    """How tools, documents, code and API descriptions are indexed and searched."""

    k: int = Field(default=5, ge=1, le=50)
    title_weight: float = Field(default=2.0, ge=0, le=10)
    """How often a word of the title counts in the keyword leg, where one of the content counts once."""
    description_weight: float = Field(default=1.2, ge=0, le=10)
    context_weight: Unit = 0.4
    """What the neighbours of a passage and the name of its file or server add to its score, beside its own text."""
    vector_weight: Unit | None = None
    """Share of the vector leg; the embedder's calibrated value when not set."""
    reranker: Literal["auto", "endpoint", "chat", "experience", "none"] = "auto"
    """Who puts the best of the index into their final order. auto: the endpoint if one is set, else for tools and APIs
    a chat model if one is set, else for tools the experience that was made with them."""
    rerank_top: int = Field(default=20, ge=2, le=100)
    """So many of the index's best are given to the reranker."""
    rerank_url: str | None = None
    """Address of a cross-encoder, such as http://127.0.0.1:8080: it is asked at `/rerank` below it."""
    rerank_model: str | None = None
    rerank_api_key: SecretStr | None = None
    rerank_timeout_s: float = Field(default=20.0, gt=0, le=120)
    allowed_folders: str = ""
    """Folders outside the project that may be indexed over MCP, one a line (or divided by `;;`)."""
    allow_mcp_servers: str = ""
    """Folders of projects whose `.mcp.json` names servers that may be started or reached to list their tools, one a
    line (or divided by `;;`). Starting what a cloned repository names is running its code: none without this."""
    server_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """So long an MCP server may take to start and list its tools."""


class OutputSettings(Model):
    """What a tool may answer."""

    max_tokens: int = Field(default=12_000, ge=200, le=1_000_000)
    """A longer answer is cut at a boundary, and says how much was left out and how to get it."""
