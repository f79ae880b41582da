"""A run of the performance suite beside the figures of the ReasoningBank report (2025-10-10, version 1.0.0).

    swarm-memory benchmark run performance -o parts=operations --out run.json
    python benchmarks/published.py run.json

The report's machine and language were others, on 2,431 items of 1,024 dimensions, and it often measured something else:
the table says what. Its items took 5,448 bytes each without a keyword index, and its growth, called linear, has 63.5 ms
at 1,000 items and 24.0 ms at 2,431.
"""

import sys
from pathlib import Path

from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.server.benchmark.performance import MEASUREMENTS
from swarm_memory.server.cli.console import print_table

PUBLISHED = {
    "open": (0.000, "handing out a connection that is open"),
    "configuration": (0.000, "handing out what was read before"),
    "insert": (1.190, "JSON and vector written, vector given"),
    "batch": (116.7, "100 single insertions"),
    "retrieve": (24.009, "fetching every candidate"),
    "retrieve_domain": (5.870, "fetching a domain's candidates"),
    "usage": (0.052, "one UPDATE"),
    "metric": (0.108, "one INSERT"),
    "cosine": (0.005, "one pair in JavaScript"),
    "statistics": (0.758, "reading the views"),
    "all_active": (7.693, "every row"),
    "insert_1000": (1.185, "1,000 single insertions"),
}
"""By operation its time in ms, and what was measured as far as the report tells."""


def main() -> None:
    run = BenchmarkRun.model_validate_json(Path(sys.argv[1]).read_bytes())
    times = {(each.subject, each.measure): each.value for each in run.results.figures}
    subjects = list(dict.fromkeys(each.subject for each in run.results.figures if each.measure == "open_p50_ms"))
    rows = [
        (
            each.name,
            f"{PUBLISHED[each.key][0]:g} per {each.per}",
            *(f"{times[subject, f'{each.key}_p50_ms']:.3g}" for subject in subjects),
            PUBLISHED[each.key][1],
            each.what,
        )
        for each in MEASUREMENTS
    ]
    headings = (
        "measurement",
        "published, ms",
        *(f"{each}, p50 ms" for each in subjects),
        "it measured",
        "ours measures",
    )
    print_table(headings, rows)


if __name__ == "__main__":
    main()
