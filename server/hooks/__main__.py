"""`python -m swarm_memory.server.hooks VERB`; imported by `python -c`, as agents run it, it starts sooner."""

import sys

from swarm_memory.server.hooks.main import main

main(sys.argv[1:])
