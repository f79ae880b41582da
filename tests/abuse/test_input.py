"""Transcripts and texts of any shape: read in bounded memory and linear time, good lines kept, no crashes."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import FULL, HANG_S, grows_by

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.sources.documents import page
from swarm_memory.tools.credit.outcome import terms_of
from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import screen
from swarm_memory.tools.model.parse import parse_object
from swarm_memory.tools.text.cleaning import clean, harmless
from swarm_memory.tools.text.tokens import count_tokens, paths_in, tokenize
from swarm_memory.tools.trajectory.shell import parse_command
from swarm_memory.tools.trajectory.tasks import task_text

pytestmark = pytest.mark.fault

MIB = 1024 * 1024


def line(number: int, text: str) -> str:
    kind = "assistant" if number % 2 else "user"
    message = {"role": kind, "content": text}
    return json.dumps({"type": kind, "sessionId": "s1", "uuid": f"u{number}", "message": message})


GOOD = (line(0, "Make the tests of the shop pass please"), line(1, "I ran the migration and the tests pass."))
BAD = (
    *("{", "}", "[", '{"type":', '{"type":"user"', "null", "true", "0", '""', "[]", "{}", "[[]]", "\\", '"\\ud800"'),
    *('{"type":"user","message":NaN}', '{"a":Infinity}', '{"a":-Infinity}', '{"a":1e999}', "1" * 5000),
    *('{"type":"user","type":"assistant","message":{"role":"user","role":5}}', "[" * 100_000, '{"a":' * 100_000),
    *("[" * 100_000 + "]" * 100_000, '{"type":"user","sessionId":"s1","message":' + "[" * 2000 + "]" * 2000 + "}"),
    *('{"type":"user","sessionId":5,"message":{"role":[],"content":{"a":1}}}', "\ufeff", "\u2028", "\x00\x00", "'x'"),
    *('{"type":"assistant","sessionId":"s1","message":{"content":[null,5,[],{"type":"tool_use","input":"x"}]}}',),
    *('{"type":"user","sessionId":"s1","timestamp":"9999-99-99","message":{"content":[{"type":"tool_result"}]}}',),
)


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_bad_lines_cost_only_themselves(tmp_path: Path, ends: str, begin: str) -> None:
    path = tmp_path / "s1.jsonl"
    for bad in BAD:
        text = begin + ends.join((GOOD[0], bad, GOOD[1], bad[: len(bad) // 2]))
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        (read,) = read_trajectories(path)
        texts = [step.text for step in read.steps]
        assert read.task == "Make the tests of the shop pass please"
        assert any("migration" in text for text in texts), bad


def test_a_file_of_nothing_but_bad_lines_is_an_error_of_the_input(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    path.write_bytes("\n".join(BAD).encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError):
        list(read_trajectories(path))


ADVERSARIAL: dict[str, Callable[[int], str]] = {
    "one letter, as a path": lambda n: "./" + "a" * n,
    "spaces": lambda n: " " * n,
    "PEM begins": lambda n: "-----BEGIN RSA PRIVATE KEY-----\n" * (n // 32),
    "assignments": lambda n: "api_key=" * (n // 8),
    "dots and ats": lambda n: "a.b@" * (n // 4),
    "digits and dashes": lambda n: "4111-" * (n // 5),
    "slashes": lambda n: "/a\\b:" * (n // 5),
    "quotes": lambda n: "\"'`" * (n // 3),
    "escapes": lambda n: "\x1b[" * (n // 2),
    "combining marks": lambda n: "e\u0301" * (n // 2),
    "base64": lambda n: "QUJDREVGRw" * (n // 10),
    "URLs": lambda n: "https://u:p@h/" * (n // 14),
    "dashes": lambda n: "-" * n,
    "underscores": lambda n: "_" * n,
    "tags": lambda n: "<a <!--" * (n // 7),
    "braces": lambda n: '{"a":' * (n // 5),
    "here-documents": lambda n: "<<EOF\n" * (n // 6),
    "letters apart": lambda n: "a b-" * (n // 4),
    "line ends": lambda n: "\n" * n,
}
TARGETS: dict[str, tuple[Callable[[str], object], int]] = {
    "redact": (redact, MIB),
    "generalize": (generalize, MIB),
    "clean": (clean, MIB),
    "tokenize": (tokenize, MIB),
    "count tokens": (count_tokens, MIB),
    "an answer of a model": (parse_object, MIB),
    "a page": (page, MIB),
    "notes": (harmless, MIB),
    "a prompt": (task_text, MIB),
    "screen": (screen, 48 * 1024),
    "paths": (lambda text: list(paths_in(text)), MIB),
    "a command": (parse_command.__wrapped__, 20_000),
    "names in a step": (lambda text: list(terms_of(text)), 20_000),
}
"""The functions that read text from outside, and the longest text that each is given or reads."""

MOST_GROWTH = 16 ** (1.25 if FULL else 1.6)
"""How much more time sixteen times the length may take; quadratic growth would be 256."""


@pytest.mark.parametrize("target", TARGETS)
def test_no_shape_of_text_takes_more_than_linear_time(target: str) -> None:
    run, most = TARGETS[target]
    largest = most if FULL else min(most // 2, 32 * 1024)
    for name, shape in ADVERSARIAL.items():
        small, large = shape(largest // 16), shape(largest)
        assert grows_by(run, small, large, at_most=MOST_GROWTH) <= MOST_GROWTH, name


def test_no_pattern_takes_long_on_a_repetitive_text() -> None:
    code = """
import importlib, pkgutil, time
from swarm_memory import tools
for module in pkgutil.walk_packages(tools.__path__, "swarm_memory.tools."):
    for name, pattern in vars(importlib.import_module(module.name)).items():
        for unit in ("a_", "a-", "10.0.0.1, ", "1..", " ", "/a", "-") if hasattr(pattern, "groupindex") else ():
            began, text = time.process_time(), "# a" + unit * (1_600 // len(unit)) + "!"
            found = pattern.match(text), pattern.fullmatch(text), pattern.fullmatch(text[3:])
            if time.process_time() - began > 2:
                print(module.name, name, unit)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout == ""


def test_each_message_of_a_list_is_read_in_its_own_time_however_long_the_task() -> None:
    def read(text: str) -> object:
        return list(read_trajectories(io.StringIO(text)))

    said = [{"role": "assistant", "content": "ok"}, *[{"role": "user", "content": "b"}] * 300]
    short, long = (json.dumps([{"role": "user", "content": "a " * chars}, *said]) for chars in (10, 100_000))
    assert grows_by(read, short, long, at_most=8) <= 8  # about 80 if each message is compared with the task


_PEAK = """
import sys
from pathlib import Path
from swarm_memory.server.hosts.transcript import read_trajectories

def peak_kb():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

(read,) = read_trajectories(sys.argv[1])
print(sum("migration" in step.text for step in read.steps), peak_kb() // 1024)
"""
"""`getrusage` of a new process includes the memory of the process that started it; VmHWM does not."""

HUGE: dict[str, tuple[int, int, int]] = {
    "100 MB": (85_000, 1_000, 7_000),
    "a line of 50 MB": (1, 50 * MIB, 8 * MIB),
    "1,000,000 lines": (1_000_000, 10, 20_000),
}
"""Lines, and characters per line; then how many lines the short run takes, or how many characters of a single line."""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("what", HUGE)
def test_a_huge_transcript_is_read_in_bounded_memory(tmp_path: Path, what: str) -> None:
    path = tmp_path / "s1.jsonl"
    lines, chars, short = HUGE[what]
    if not FULL:
        lines, chars = (lines, short) if lines == 1 else (short, chars)
    text = "x" * chars
    with path.open("w", encoding="utf-8") as file:
        file.write(GOOD[0] + "\n")
        file.writelines(line(number * 2 + 3, text) + "\n" for number in range(lines))
        file.write(GOOD[1] + "\n")
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    last, peak = map(int, done.stdout.split())
    assert last == 1
    assert peak <= 200
