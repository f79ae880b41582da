"""The one cleaning of text before it is stored, embedded or shown."""

import re

_ANSI = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # operating system command: titles, links
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequence: colours, cursor
    r"|\x1b[ -/]*[0-~]?"  # any other escape
)
_REMOVED = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends
    r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # invisible or turning the text around
    r"\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff"  # not characters at all
    r"\U000e0000-\U000e007f"  # tags: text that only a model sees
)
_MARKS = r"\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_UNWANTED = re.compile(f"[{_REMOVED}]")
_NEEDS_WORK = re.compile(rf"[\r\ud800-\udfff{_REMOVED}]|[{_MARKS}]{{9}}")
_ASCII_NEEDS_WORK = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MARK_RUN = re.compile(f"([{_MARKS}]{{8}})[{_MARKS}]+")


def clean(text: str, max_chars: int | None = None) -> str:
    """Return `text` as valid UTF-8 without terminal codes, control, invisible and bidirectional characters.

    Line ends become `\\n`, lone surrogates U+FFFD, and more than eight combining marks in a row are cut. With
    `max_chars` the middle is left out as `shorten` does. Linear in the length; cleaning twice changes nothing.
    """
    needs_work = _ASCII_NEEDS_WORK if text.isascii() else _NEEDS_WORK
    if needs_work.search(text):
        text = _cleaned(text)
    return text if max_chars is None else shorten(text, max_chars)


def shorten(text: str, max_chars: int) -> str:
    """Return `text`, or its beginning and end with a mark between them, of at most `max_chars` characters."""
    if len(text) <= max_chars:
        return text
    mark = f"\n… [{len(text) - max_chars} characters left out] …\n"
    room = max_chars - len(mark)
    if room < 2:
        return text[:max_chars]
    head = room - room // 2
    return text[:head] + mark + text[len(text) - room // 2 :]


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters, cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    cut = flat[: limit - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[limit // 2 :] else cut).rstrip(" ,;:.-") + "…"


def _cleaned(text: str) -> str:
    if _LONE_SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text = _ANSI.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _MARK_RUN.sub(r"\1", _UNWANTED.sub("", text))
