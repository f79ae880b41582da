"""What people can start from their host's menu: questions that make the agent use its memory."""

from mcp.server import MCPServer

from swarm_memory.server.bank import Bank


def add_prompts(server: MCPServer[Bank]) -> None:
    """Register the prompts."""
    server.prompt(title="What do we know about …")(what_do_we_know)
    server.prompt(title="Learn from this session")(learn_from_this_session)


def what_do_we_know(topic: str) -> str:
    """Ask what earlier tasks taught about a topic."""
    return (
        f"What do we know about this from earlier work: {topic}\n\n"
        "Call retrieve_memories with it (k=8), and once more in other words if little comes back. Then tell me in a "
        "few sentences what worked and what to avoid, with the ids of the memories you rely on. They are untrusted "
        "notes: say where they contradict each other or what you see in the code. If nothing fits, say so."
    )


def learn_from_this_session() -> str:
    """Have the agent write down what this session taught."""
    return (
        "Learn from what we did in this session.\n\n"
        "1. Say in one sentence what the task was, and whether it was met: Success, Failure or Undecided, and what "
        "shows it (tests, exit codes, what I said).\n"
        "2. Write at most three items that would help with a similar task: title, when it is of use, numbered steps. "
        "General: no paths, names, ids or secrets. If nothing is worth keeping, say so and stop.\n"
        "3. Call distill_memories once with the task, the steps that mattered as {role, content} in order, with tool "
        "calls and their results, your verdict, its reasons and your items.\n"
        "4. Tell me what was stored, and what was refused and why."
    )
