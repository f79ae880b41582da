"""Messages that a client may send but MCP's JSON-RPC may not allow, with the expected answers."""

IDS: tuple[tuple[bytes, int | str | None], ...] = (
    *((b"0", 0), (b"-7", -7), (b"%d" % 2**70, 2**70), (b'""', ""), (b'"1e2"', "1e2")),
    (b'"%b"' % (b"x" * 100_000), "x" * 100_000),
    *((refused, None) for refused in (b"null", b"1e2", b"1.0", b"1e300", b"1e999", b"NaN", b"true", b"false")),
    *((refused, None) for refused in (b"[]", b"[1]", b"{}", b'{"a":1}', b"9" * 5000)),
)
"""An id as it is sent, and the id of the answer: None if the request is refused."""

NO_MESSAGES = (
    (b"[]", -32600),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    (b"1", -32600),
    (b'"ping"', -32600),
    (b"{}", -32600),
    (b'{"jsonrpc":"2.0","method":1}', -32600),
    (b'{"jsonrpc":"2.0","method":"ping","id":null}', -32600),
    (b'{"jsonrpc":"2.0","method', -32700),
    (b'\xff\xfe{"id', -32700),
)
"""Input that is no valid message and gives no usable id, with the error code of the answer."""
