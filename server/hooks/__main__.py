"""`python -m swarm_memory.server.hooks VERB`."""

import sys

from swarm_memory.server.hooks.main import main

main(sys.argv[1:])
