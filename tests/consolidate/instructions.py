"""Words and pairs of instructions from which contradiction tests are made."""

OTHER_MATTERS = (
    ("If the request is a GET, retry it after a timeout", "Do not retry the request after a timeout if it is a POST"),
    ("Do not edit the generated files unless the generator is broken", "Edit the generated files"),
    ("Delete the build folder when the cache is stale", "Do not delete the database when the cache is stale"),
    ("Avoid mutable default arguments in functions", "Use type annotations for function arguments"),
    ("Do not use sudo with npm install", "Use a virtual environment with pip install"),
    ("Increase the heap of the JVM", "Decrease the batch size of the GPU"),
    ("Check the fields of the answer to avoid key errors", "Check the fields of the answer for key errors"),
    ("Quote the variables so that spaces do not split them", "Quote the variables, spaces split them"),
    ("Send the token of the session after the login", "Do the login before you send the token of the session"),
    ("Use the read replica of the bank for reports", "Do not use the read replica of the bank for writes"),
    ("Mock the clock, not the scheduler", "Mock the mailer, not the clock of the server"),
    ("Open the file in binary mode", "Close the file after reading"),
    ("Read the error message before changing code", "Run the tests after changing code"),
)

VERBS = ("check", "rebuild", "encrypt", "rotate", "trace", "isolate", "split", "merge", "lock", "log", "mount", "retry")
THINGS: tuple[str, ...] = (
    "cache", "token", "queue", "schema", "branch", "fixture", "socket", "cookie", "cursor", "parser", "thread", "image",
    "volume", "proxy", "router", "payload", "worker", "secret", "pixel", "widget", "camera", "kernel", "heap", "matrix",
    "dataset", "cluster", "folder", "backup", "trigger", "invoice", "customer", "refund", "ledger", "chart", "tensor",
)  # fmt: skip
