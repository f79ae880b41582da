# The server over HTTP for clients of other machines: docs/MANUAL.md, "In a container".
FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
COPY pyproject.toml hatch_build.py uv.lock README.md LICENSE ./
COPY schema schema
COPY tools tools
COPY server server
ENV UV_PROJECT_ENVIRONMENT=/opt/swarm-memory UV_PYTHON=/usr/local/bin/python UV_LINK_MODE=copy
RUN uv sync --frozen --extra postgres --no-default-groups --no-editable --compile-bytecode

FROM python:3.13-slim
LABEL org.opencontainers.image.source="https://github.com/owner--not-set/swarm-memory" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/swarm-memory /opt/swarm-memory
RUN useradd --uid 10001 --create-home swarm && install -d -o swarm -g swarm -m 700 /data
# Bank, token and the record that this bank was made here lie in one volume.
ENV PATH=/opt/swarm-memory/bin:$PATH \
    SWARM_MEMORY_DB=/data/memory.db XDG_STATE_HOME=/data/state XDG_CONFIG_HOME=/data/config
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
# There is no page without a token: whoever refuses a stranger is well.
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-I", "-c", \
    "from http.client import *; c = HTTPConnection('127.0.0.1', 8765, timeout=4); c.request('GET', '/mcp'); exit(c.getresponse().status not in (401, 429))"]
ENTRYPOINT ["swarm-memory", "serve", "--http", "--host", "0.0.0.0", "--token-file", "/data/token"]
CMD ["--allow-host", "localhost:8765"]
