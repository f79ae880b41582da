"""Speed of the pages in the browser: the start of `swarm-memory ui`, and each kind of page, on 10,000 memories.

    python benchmarks/speed_viewer.py [--memories 10000] [--runs 15]

The bank holds a task with 40 steps for every fourth memory, a retrieval for every tenth, a contradiction for every
hundredth. A page's time is that of the whole request over one connection, without what a browser does with it.
"""

import argparse
import asyncio
import http.client
import json
import re
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from made_banks import own_home
from speed_server import made_item, paragraphs

from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.ports.trajectories import LearnRecord
from swarm_memory.tools.ports.upkeep import UpkeepBatch
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.toolbox import Toolbox

LIMIT_START_S = 1.5
LIMIT_PAGE_MS = 50.0
STEPS = 40
UI = ("-I", "-m", "swarm_memory.server.cli", "ui", "--no-browser")


async def fill(root: Path, texts: list[str]) -> None:
    """Write a memory for each text, as tasks taught them, with retrievals and contradictions."""
    settings = Settings()
    toolbox = await open_toolbox(place_of(root, settings), settings)
    for number, start in enumerate(range(0, len(texts), 4)):
        await learn_task(toolbox, number, texts[start : start + 4])
    await toolbox.store.close()


async def learn_task(toolbox: Toolbox, number: int, texts: list[str]) -> None:
    """Write a task that taught a memory for each text, with what was told to it and the calls of its tools."""
    task, now = made_task(number, texts), datetime.now(UTC)
    source = Provenance(task_id=task.task_id, trajectory_id=f"tr_{number}", evidence=("s2",), judge="evidence")
    statuses = ["quarantined" if number % 50 == 0 and at == 0 else "active" for at in range(len(texts))]
    items = [
        made_item(text, toolbox.scope, confidence=0.6, provenance=source, status=status)
        for text, status in zip(texts, statuses, strict=True)
    ]
    await toolbox.store.save_learning(
        LearnRecord(
            scope=toolbox.scope,
            run_id=f"run-{number}",
            trajectory_id=f"tr_{number}",
            trajectory=task,
            verdict=Verdict(label="Success", confidence=0.8, reasons=("the tests pass",), judge="evidence"),
            embedder=toolbox.embedder.name,
            memories=tuple(await prepare(toolbox, items)),
            reinforced=(),
            reinforcement=0.0,
            at=now,
        )
    )
    if number % 25 == 0 and len(items) > 2:
        link = MemoryLink(src_id=items[1].id, dst_id=items[2].id, relation="contradicts", weight=0.9)
        await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch(f"run-{number}", now, links=(link,)))
    if number % 3 == 0:
        await retrieve(toolbox, texts[0], task_id=task.task_id, session_id=task.session_id)
    tool = f"Bash:{texts[0].split()[0]}"[:60]
    calls = [
        LoggedCall(tool_name=tool, input={"command": text}, success=at != 1, task_id=task.task_id)
        for at, text in enumerate(texts)
    ]
    await log_tool_calls(toolbox, calls, evaluate_later=False)


def made_task(number: int, texts: list[str]) -> Trajectory:
    """Return a task with `STEPS` steps, of which some calls failed."""
    steps = [Step(id="s1", kind="message", role="user", text=texts[0])]
    for step in range(2, STEPS, 2):
        given, last = {"command": texts[step % len(texts)]}, f"s{step + 1}"
        call = {"id": f"s{step}", "kind": "tool_call", "role": "assistant", "tool_name": "Bash", "tool_input": given}
        said = {"id": last, "kind": "observation", "role": "tool", "text": texts[0], "is_error": step % 9 == 0}
        steps += [Step.model_validate({**each, "call_id": f"c{step}"}) for each in (call, said)]
    return Trajectory(task_id=f"task-{number}", task=texts[0], steps=tuple(steps), session_id=f"s-{number // 3}")


class Browser:
    """One connection to the pages, let in."""

    def __init__(self, link: str) -> None:
        where = urlsplit(link)
        self._connection = http.client.HTTPConnection(where.hostname or "", where.port)
        self._cookie = ""
        self.get(f"{where.path}?{where.query}")

    def get(self, path: str) -> tuple[float, str]:
        """Return the milliseconds of a page, and the page."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"cookie": self._cookie})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        took = (time.perf_counter() - began) * 1000
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}")
        self._cookie = (answer.headers.get("set-cookie") or self._cookie).partition(";")[0]
        return took, text


def kinds_of_pages(browser: Browser) -> list[str]:
    """Return the pages of the menu, one of each kind beneath them, and searches."""
    _, first = browser.get("/ui")
    found = list(
        dict.fromkeys(unescape(each) for each in re.findall(r'<a href="(/ui[^"#]*)"', first.partition("<main")[0]))
    )
    for path in list(found):
        _, page = browser.get(path)
        links = [unescape(each) for each in re.findall(r'href="(/ui/[^"#]*)"', page.partition("<main")[2])]
        kinds = {each.partition("?")[0].rpartition("/")[0]: each for each in reversed(links)}
        found += [each for kind, each in kinds.items() if kind != "/ui" and each not in found]
    return [*found, *(f"{path}?q=open+the+file" for path in ("/ui/memories", "/ui/ask") if path in found)]


def main() -> int:
    """Measure, print one JSON object, and return 1 when a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args()
    with own_home() as root:
        asyncio.run(fill(root, paragraphs(options.memories)))
        starts = list[float]()
        for _ in range(5):
            took, process, _ = started(root)
            starts.append(took)
            process.terminate()
            process.wait()
        _, process, link = started(root)
        browser = Browser(link)
        pages: dict[str, Any] = {}
        for path in kinds_of_pages(browser):
            times = [browser.get(path)[0] for _ in range(options.runs)]
            shown = re.sub(r"[A-Z0-9]{26}|tr_\d+", "ID", path)
            pages[shown] = {"p50_ms": round(statistics.median(times), 1), "max_ms": round(max(times), 1)}
        process.terminate()
        process.wait()
    slow = [path for path, each in pages.items() if each["p50_ms"] > LIMIT_PAGE_MS]
    start = statistics.median(starts)
    print(
        json.dumps(
            {"memories": options.memories, "start_s": round(start, 2), "pages": pages, "over_50_ms": slow}, indent=1
        )
    )
    return 0 if start <= LIMIT_START_S and not slow else 1


def started(root: Path) -> tuple[float, "subprocess.Popen[str]", str]:
    """Start the pages; return the seconds until the link is told, the process, the link."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *UI], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    link = process.stdout.readline().removeprefix("swarm-memory: ").strip()
    return time.perf_counter() - began, process, link


if __name__ == "__main__":
    sys.exit(main())
