"""`python -m swarm_memory.server.hooks VERB`; agents import it with `python -c`, which starts sooner."""

import sys

from swarm_memory.server.hooks.main import main

main(sys.argv[1:])
