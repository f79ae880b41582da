"""Files of conversations through the door of the benchmark: what the bank holds back of them is nothing."""

import json
from pathlib import Path

from swarm_memory.server.benchmark.running import run_benchmark
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import Reports

TALKS = (
    ("my bees need a new hive before winter", "A cedar hive lasts longest.", "what do my bees need before winter?"),
    ("yes, I booked the ferry to Naxos for June", "Have a good crossing!", "which island did I book a ferry to?"),
    ("sure: my violin teacher is called Imke", "Imke is a lovely name.", "what is my violin teacher called?"),
    ("I gave the old lathe to my brother Tom", "Tom will put it to use.", "to whom did I give the lathe?"),
)
"""What the user says first, what is answered, and what is asked later."""


async def test_every_session_of_a_longmemeval_file_is_stored_and_found(
    toolbox: Toolbox, root: Path, reports: Reports
) -> None:
    sessions = [[{"role": "user", "content": said}, {"role": "assistant", "content": done}] for said, done, _ in TALKS]
    sessions[0] += [{"role": "user", "content": "ok, thanks"}, {"role": "assistant", "content": "You are welcome."}]
    records = [
        {
            "question_id": f"q{at}",
            "question_type": "single-session-user",
            "question": asked,
            "answer": said,
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": [f"s{number}" for number in range(len(TALKS))],
            "haystack_dates": [f"2023/05/{20 + number} (Sat) 02:21" for number in range(len(TALKS))],
            "haystack_sessions": sessions,
            "answer_session_ids": [f"s{at}"],
        }
        for at, (said, _, asked) in enumerate(TALKS)
    ]
    (root / "talks.json").write_text(json.dumps(records), encoding="utf-8")
    options = {"dataset": "longmemeval", "path": "talks.json", "systems": "hybrid,vector,keyword"}
    run, _ = await run_benchmark(toolbox, root, "retrieval", options, report=reports)
    systems = ("hybrid", "vector", "keyword")  # what they differ by are figures too
    found = {
        each.subject: each.value
        for each in run.results.figures
        if each.subject in systems and (each.measure, each.part) == ("recall_any@1", "")
    }
    assert found == dict.fromkeys(systems, 1.0)
