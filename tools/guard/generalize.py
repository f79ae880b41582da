"""What is general of a strategy: without what holds for one machine or day."""

import re

_MARK = re.compile(r"\[(?:secret:[a-z0-9-]{1,40}|email|card|iban|phone)\]")
_SYSTEM = frozenset({"bin", "dev", "etc", "lib", "proc", "sbin", "sys", "usr"})
_ROUTES = frozenset({"api", "auth", "graphql", "health", "login", "rest", "users", "v1", "v2", "v3", "webhooks"})
_TIME = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
_HEX_ID = r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,128}"
_PUBLIC_HOSTS = frozenset({
    "github.com", "gitlab.com", "bitbucket.org", "pypi.org", "npmjs.org", "npmjs.com", "docker.io", "ghcr.io",
    "crates.io", "golang.org", "python.org", "nodejs.org", "debian.org", "ubuntu.com", "example.com",
    "example.org",
})  # fmt: skip
_GENERAL: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]{1,15}://[^\s\"'<>`)\]]{1,4000}"), "<url>"),
    (re.compile(r"(?<![\w-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![\w-])"), "<id>"),
    (re.compile(r"(?<![A-Za-z0-9])(?:[a-z]{2,12}_)?[0-7][0-9A-HJKMNP-TV-Z]{25}(?![A-Za-z0-9])"), "<id>"),
    (re.compile(r"(?<![\w/-])(?:msg|req|run|toolu|call|chatcmpl|resp|thread|asst)_[A-Za-z0-9]{16,64}(?!\w)"), "<id>"),
    (re.compile(rf"(?<!\w){_TIME}(?!\w)"), "<time>"),
    (re.compile(r"(?<![\w:.])\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?![\w:])"), "<time>"),
    (
        re.compile(
            r"(?<![\w.-])(?:[\w.-]{1,64}@)?(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.]|/\d)"
        ),
        "<host>",
    ),
    (re.compile(r"(?<!\w)0x[0-9a-fA-F]{4,32}(?!\w)"), "<id>"),
    (re.compile(rf"(?<![\w./-])(?:sha256:)?{_HEX_ID}(?![\w-]|\.\w)"), "<id>"),
    (re.compile(r"(?<![\w.<])(?!\d{1,12}000(?!\d))\d{6,40}(?!\w|\.\d)"), "<id>"),
    (re.compile(r"\b([Pp][Ii][Dd][ =:]{1,3})\d{2,7}\b"), r"\1<id>"),
    (re.compile(r"\b([Ll]ines?[ :]{1,2})\d{1,7}(?:[-\u2013]\d{1,7})?\b"), r"\1<line>"),
    (re.compile(r"(\.[A-Za-z]{1,5}):\d{1,7}(?::\d{1,5})?(?![\w.])"), r"\1:<line>"),
)
_HOST = re.compile(
    r"(?<![\w.@/-])(?:([A-Za-z0-9_][\w.-]{0,63})@)?((?:[A-Za-z0-9][A-Za-z0-9-]{0,62}\.){1,8}"
    r"(?:com|net|org|internal|local|lan|corp|intranet|localdomain|cloud|svc))(?::\d{1,5})?(?![\w-]|\.\w|\()"
)
_POSIX_PATH = re.compile(r"(?<![\w.<>/:$}*-])(?:~[\w-]{0,40}(?=/)|/[\w.@+~%-]{1,255})(?:/[\w.@+~%=,-]{1,255}){0,60}/?")
_WINDOWS_PATH = re.compile(
    r"(?<!\w)(?:[A-Za-z]:(?:\\{1,2}|/)|\\\\)[\w.@+~$-]{1,255}(?:(?:\\{1,2}|/)[\w.@+~$-]{1,255}){0,60}"
)
_FILE_NAME = re.compile(r"[\w+-]{1,80}(?:\.[\w-]{1,20}){0,3}\.[A-Za-z]\w{0,7}$")


def generalize(text: str) -> str:
    """Replace what holds for one machine or day by `<path>`, `<url>`, `<host>`, `<user>`, `<id>` ….

    Relative paths, commands, versions, file names and the paths of the system stay: they carry the strategy. Of a
    path in somebody's folders the file name stays. Give it redacted text; linear, and doing it twice changes nothing.
    """
    parts: list[str] = []
    position = 0
    for mark in _MARK.finditer(text):
        parts += (_generalized(text[position : mark.start()]), mark[0])
        position = mark.end()
    parts.append(_generalized(text[position:]))
    return "".join(parts)


def _generalized(text: str) -> str:
    (urls, url), *rest = _GENERAL
    text = urls.sub(url, text)
    text = _WINDOWS_PATH.sub(lambda match: _shortened(match[0].replace("\\", "/")), text)
    text = _POSIX_PATH.sub(lambda match: _posix(match[0]), text)
    text = _HOST.sub(_host, text)
    for pattern, placeholder in rest:
        text = pattern.sub(placeholder, text)
    return text


def _posix(path: str) -> str:
    parts = path.strip("/").split("/")
    if path.startswith("/") and (len(parts) < 2 or parts[0] in _SYSTEM or parts[0] in _ROUTES):
        return path
    return _shortened(path)


def _shortened(path: str) -> str:
    """Return the placeholder, with the name of the file where there is one."""
    stripped = path.rstrip("./")
    name = stripped.rpartition("/")[2]
    trailing = path[len(stripped) :].strip("/")
    is_file = "/" in stripped.strip("/") and _FILE_NAME.match(name) is not None
    return ("<path>/" + name if is_file else "<path>") + trailing


def _host(match: re.Match[str]) -> str:
    if match[2].lower().removeprefix("www.") in _PUBLIC_HOSTS:
        return match[0] if match[1] in (None, "git") else match[0].replace(match[1] + "@", "<user>@")
    return "<host>" if match[1] is None else "<user>@<host>"
