#!/bin/sh
# A hook of the plugin of Claude Code: runs our command, which the plugin's server has installed.
# It never ends with 2, which would block a prompt.
command="$CLAUDE_PLUGIN_DATA/venv/bin/swarm-memory"
if [ -x "$command" ]; then exec "$command" hook "$@" --plugin; fi
case "$*" in *session-start)
    if command -v uv >/dev/null; then
        told="is being installed by its server (about 300 MB, once). It learns as soon as that is done; /mcp says how the server stands."
    else
        told="needs uv, which was not found: install it (https://docs.astral.sh/uv) and start Claude Code anew."
    fi
    printf '{"systemMessage": "swarm-memory %s"}' "$told"
esac
exit 0
