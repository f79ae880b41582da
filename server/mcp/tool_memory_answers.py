"""What the MCP tools of the tool memory answer: guidance and figures, none of the calls themselves."""

from pydantic import BaseModel

from swarm_memory.schema.tool_memory import LogResult, ToolGuidance


class LogAnswer(BaseModel):
    """What became of the calls."""

    logged: int
    known: int
    tools: list[str]

    @classmethod
    def of(cls, result: LogResult) -> "LogAnswer":
        return cls(logged=result.logged, known=result.known, tools=list(result.tools))


class RankedTool(BaseModel):
    """One tool that was called for something similar."""

    tool_name: str
    rank: float
    expected_success: float
    similar_calls: int
    similar_good: int


class GuidanceAnswer(BaseModel):
    """Guidance as Markdown; for a task also the tools in their order."""

    markdown: str
    ranked: list[RankedTool] | None = None
    unknown: list[str] | None = None
    reason: str | None = None

    @classmethod
    def of(cls, found: ToolGuidance) -> "GuidanceAnswer":
        ranked = [
            RankedTool(
                tool_name=each.tool_name,
                rank=round(each.rank, 4),
                expected_success=round(each.expected_success, 3),
                similar_calls=each.similar,
                similar_good=each.similar_good,
            )
            for each in found.experience
        ]
        return cls(
            markdown=found.markdown, ranked=ranked or None, unknown=list(found.unknown) or None, reason=found.reason
        )
