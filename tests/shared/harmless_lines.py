"""Lines of everyday development that look a little like secrets: handwritten ones, and random ones from a seed."""

import random
from collections.abc import Iterator
from pathlib import Path

from secret_lines import HEX, LOWER, WORD, run, uuid

FIXED = (Path(__file__).parents[1] / "guard" / "texts" / "harmless.txt").read_text("utf-8").splitlines()


def random_lines(seed: int, times: int) -> Iterator[str]:
    """Yield lines with hashes, ids, versions, paths and numbers."""
    random_ = random.Random(seed)
    for _ in range(times):
        number = random_.randint(10**9, 10**13 - 1)
        yield f"commit {run(HEX, 40)(random_)}"
        yield f"{run(HEX, 7)(random_)} Fix the parser for empty input"
        yield f"sha256:{run(HEX, 64)(random_)}  dist/app-1.2.{number % 90}.tar.gz"
        yield f'integrity "sha512-{run(WORD + "+/", 86)(random_)}=="'
        yield f"request_id={uuid(random_)} status=200"
        yield f"container {run(HEX, 12)(random_)} started in {number % 999} ms"
        yield f"created_at: {number} updated_at: {number + 5}"
        yield f"/var/lib/app/cache/{number % 90}/{run(HEX, 38)(random_)}.bin"
        yield f'File "/srv/app/src/module_{number % 50}.py", line {number % 900}, in handle_{run(LOWER, 6)(random_)}'
        yield f"test_login_{number % 77}[chrome-{number % 120}.0.{number % 9999}] PASSED [ {number % 100}%]"
        yield f'etag: W/"{run(HEX, 16)(random_)}"'
        yield f"0x{run(HEX, 12)(random_)} in main () at src/main.c:{number % 500}"
        yield f"order {number % 10**8} of customer {number % 10**6}: {number % 500}.{number % 99:02d} EUR"
        yield f"index {run(HEX, 7)(random_)}..{run(HEX, 7)(random_)} 100644"
        yield f"ETA 00:{number % 60:02d}:{number % 59:02d} {number % 100}.{number % 10} MB/s"
        yield f"worker-{run(LOWER, 5)(random_)}-{run(LOWER, 5)(random_)} is ready"
        yield f"pod/shop-{run(HEX, 9)(random_)}-{run(LOWER, 5)(random_)} 1/1 Running 0 {number % 60}m"
        yield f"trace_id: {run(HEX, 32)(random_)} span_id: {run(HEX, 16)(random_)}"
