"""The retrieval suite of `swarm-memory benchmark run`, compared with other memory systems.

    python benchmarks/retrieval/run.py --config outside.json -o dataset=locomo -o path=locomo10.json

It takes the options of `swarm-memory benchmark run`, and `benchmark report` reads its runs.
docs/BENCHMARKS.md says what each system is.
"""

import sys

from swarm_memory.server.benchmark.running import SUITES
from swarm_memory.server.cli.main import main

if __name__ == "__main__":
    SUITES["retrieval"] = "systems.suite"
    sys.argv[1:1] = ["benchmark", "run", "retrieval"]
    main()
