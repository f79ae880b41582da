"""`python -m swarm_memory.server.cli`."""

from swarm_memory.server.cli.main import main

main()
