"""Trajectories in plain text of public data, as the scripts beside the product read them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "judge_evidence.py"

RAN = (("pytest -q", 1, "1 failed in 0.10s"), ("sed -i s/-/+/ sums.py", 0, ""), ("pytest -q", 0, "1 passed in 0.10s"))
REACT = "Who wrote it?\nThought 1: I search.\nAction 1: Search[it]\nObservation 1: Ann.\nAction 2: Finish[Ann]"


def in_fence(command: str, code: int, output: str) -> list[dict[str, Any]]:
    """A command as the last thing of a message, and what a harness answers in the user's name."""
    return [
        {"role": "assistant", "content": f"THOUGHT: Go on.\n\n```bash\n{command}\n```"},
        {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"},
    ]


def after_mark(command: str, code: int, output: str) -> list[dict[str, Any]]:
    """A command as a call in JSON behind a mark, and the result of the tool."""
    call = {"id": f"c{command}{code}", "function": {"name": "Bash", "arguments": json.dumps({"command": command})}}
    return [
        {"role": "assistant", "content": f"I go on.\n[tool_calls] {json.dumps([call])}"},
        {"role": "tool", "tool_call_id": call["id"], "content": f"{output}\nexit code: {code}"},
    ]


def edited(old: str, new: str, code: int, output: str) -> list[dict[str, Any]]:
    """An edit as a block, and the harness's word that it is applied and how its test script ended."""
    block = f"sums.py\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```"
    script = f"Test Script: pytest -q tests/test_sums.py;\n{output}\n[env] [sums-1] Return Code: {code}\n"
    return [
        {"role": "assistant", "content": f"The sign is wrong.\n\n{block}"},
        {"role": "tool", "content": f"Applied edit to sums.py\n\n{script}"},
    ]


def test_commands_in_texts_are_judged_by_their_results(tmp_path: Path) -> None:
    given = {
        "fenced": [message for each in RAN for message in in_fence(*each)],
        "marked": [message for each in RAN for message in after_mark(*each)],
        "blocks": edited("a - b", "b - a", 1, "1 failed in 0.10s") + edited("b - a", "-a - b", 1, "1 failed in 0.10s"),
        "react": [{"role": "transcript", "content": REACT}],
    }
    records = [
        {"id": f"{name}-{number}", "task": "Fix the sign of add()", "success": True, "steps": steps}
        for name, steps in given.items()
        for number in range(2)
    ]
    (tmp_path / "known.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "known.jsonl: n=8 {'Failure': 2, 'Success': 4, 'Undecided': 2}" in done.stdout
