"""Make text safe to keep, short, and harmless among notes; put faults into words; read YAML; compile patterns late."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled only at its first use: one command needs few of them.

    An invalid one raises `re.error` then.
    """
    return _Lazy(text, flags)  # pyright: ignore[reportReturnType] - it passes everything on


class _Lazy:
    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> object:
        value = self.__dict__[name] = getattr(re.compile(*self._given), name)
        return value


_ANSI = lazy(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # operating system command: titles, links
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # control sequence: colours, cursor
    r"|\x1b[ -/]*[0-~]?"  # any other escape
)
_REMOVED = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # control characters but tab and line ends
    r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"  # invisible, or reversing the text's direction
    r"\ufdd0-\ufdef\ufff9-\ufffb\ufffe\uffff"  # not characters at all
    r"\U000e0000-\U000e007f"  # tags: text that only a model sees
)
_MARKS = r"\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_UNWANTED = lazy(f"[{_REMOVED}]")
_NEEDS_WORK = lazy(rf"[\r\ud800-\udfff{_REMOVED}]|[{_MARKS}]{{9}}")
_ASCII_NEEDS_WORK = lazy(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONE_SURROGATE = lazy(r"[\ud800-\udfff]")
_LEFT_OUT = lazy(r"\n… \[(\d{1,12}) characters left out\] …\n")
_MARK_RUN = lazy(f"([{_MARKS}]{{8}})[{_MARKS}]+")


def clean(text: str, max_chars: int | None = None) -> str:
    """Return `text` as valid UTF-8 without terminal codes, control, invisible and bidirectional characters.

    Line ends become `\\n`, lone surrogates U+FFFD, and more than eight combining marks in a row are cut. With
    `max_chars` the middle is left out as `shorten` does. Linear in the length; cleaning twice changes nothing.
    """
    if (_ASCII_NEEDS_WORK if text.isascii() else _NEEDS_WORK).search(text):
        if _LONE_SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
        text = _MARK_RUN.sub(r"\1", _UNWANTED.sub("", text))
    return text if max_chars is None else shorten(text, max_chars)


def shorten(text: str, max_chars: int, ends: tuple[str, str] | None = None) -> str:
    """Return `text`; if it is over `max_chars`, its ends, or `ends`, around a mark that counts all that is left out."""
    if len(text) <= max_chars:
        return text
    earlier = _LEFT_OUT.search(text, max_chars // 2, len(text) - max_chars // 2)
    mark = f"\n… [{len(text) - max_chars + (int(earlier[1]) if earlier else 0)} characters left out] …\n"
    room, (first, last) = max_chars - len(mark), ends or (text, text)
    if room < 2:
        return first[:max_chars]
    return first[: room - room // 2] + mark + last[max(0, len(last) - room // 2) :]


def one_line(text: str, limit: int) -> str:
    """Return `text` on one line of at most `limit` characters, cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= limit:
        return flat
    cut = flat[: limit - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[limit // 2 :] else cut).rstrip(" ,;:.-") + "…"


_MAX_FAULTS, _MAX_FAULT_CHARS, _MAX_ALIASES = 4, 560, 1_000


def faults(error: "ValidationError", within: str = "") -> str:
    """Return what pydantic says about each field that is missing or wrong; `within` comes before each name."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    said: dict[str, None] = {}
    for each in found:
        where = ".".join(str(part)[:80] for part in each["loc"]) or "it"
        said[f"{within}{where}: {each['msg'].removeprefix('Value error, ')}"] = None
    return one_line("; ".join(list(said)[:_MAX_FAULTS]), _MAX_FAULT_CHARS)


def read_yaml(text: str | bytes) -> Any:
    """Return what YAML says that anybody may have written. Raises `ValueError` with the reason on one line."""
    import yaml  # its constructors take a tag at its word: `!!bool maybe` is a KeyError, `!!int ""` an IndexError

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        # An alias expands to what it names, wherever it is used: a few kilobytes of them can mean gigabytes.
        if sum(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)) > _MAX_ALIASES:
            raise ValueError(f"it has more than {_MAX_ALIASES:,} YAML aliases")
        return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, RuntimeError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
        raise ValueError(one_line(clean(str(error)), 200)) from error


NOTES_OPEN, NOTES_CLOSE = "<swarm-memory-notes>", "</swarm-memory-notes>"
"""The frame around whatever is put into a prompt, so that it can be removed again."""

_ID = lazy(r"r[mt]_[0-9A-HJKMNP-TV-Z]{26}")
"""The id of a memory or a retrieval (the ULID specification)."""
_REFERENCE = lazy(r"^\d+\) .*\[(rm_[0-9A-HJKMNP-TV-Z]{26})\]$", re.MULTILINE)
_HOME = r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?(?:[/\s]|$)"
_URL = lazy(rf"(?:[A-Za-z][A-Za-z0-9+.-]{{1,20}}://(?!{_HOME})|\bwww\.|\bdata:\w+/|\b(?:java|vb)script:)[^\s)>\]]+")
PLACEHOLDERS = "path|url|host|id|time|line|user"  # in < > they replace what belongs to one machine or day
_TAG = lazy(
    rf"[<\uff1c\ufe64](?!(?:{PLACEHOLDERS})>)(?=[\s<]{{0,4}}[/!?|]|<{{0,4}}[^\W\d]|\s+[\w-]+\s*>)|&(?:lt|LT|#0*60|#[xX]0*3[cC]);?"
)
"""What could begin a tag; the marks that redaction leaves do not count."""

_TAG_END = lazy(r"(\u2039[^<>\u2039\u203a]{0,200})>")
_BEGIN_OF_TURN = lazy(
    r"\A(\W{0,6}(?:system|developer|assistant|human|user)"
    r"(?: (?:prompt|message|override|note|notice|instructions?))?[*_ ]{0,3})[:\uff1a]",
    re.IGNORECASE,
)
_SUSPECT = lazy(r"[^ -~]|[<&]|\]\(|```|INST\]|://|www\.|data:|script:|r[mt]_")
"""A text without any of these has nothing that `harmless` would change but white space and a turn's beginning."""

_INVISIBLE = lazy(
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"
    r"\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)
"""Characters that no line of notes needs; those that are white space become blanks."""


def is_memory_id(text: str) -> bool:
    """Whether `text` has the form of a memory's id."""
    return text.startswith("rm_") and _ID.fullmatch(text) is not None


def parse_ids(text: str) -> tuple[str, ...]:
    """Return the distinct ids of the memories that a preamble within `text` names, in order."""
    return tuple(dict.fromkeys(_REFERENCE.findall(text)))


def harmless(text: str, *, keeps_links: bool = False) -> str:
    """Return `text` as one line that cannot leave the frame, act as markup or a turn of a dialog, or name a memory.

    Control, invisible and bidirectional characters and terminal codes are removed; what could begin a tag becomes
    U+2039; links to anything but this machine become `(link)`, except with `keeps_links`, for the user's own word;
    `user:` at the beginning becomes `(user)`. Linear in the length.
    """
    if not _SUSPECT.search(text):
        return _BEGIN_OF_TURN.sub(r"(\1)", " ".join(text.split()))
    text = _ANSI.sub("", text) if "\x1b" in text or "\x9b" in text else text
    text = " ".join(_INVISIBLE.sub("", text).split())
    if "<" in text or "&" in text or not text.isascii():
        text = _TAG_END.sub("\\1\u203a", _TAG.sub("\u2039", text))
    text = _ID.sub("(id)", text if keeps_links else _URL.sub("(link)", text))
    text = text.replace("](", "] (").replace("```", "`").replace("[INST]", "(INST)").replace("[/INST]", "(/INST)")
    return _BEGIN_OF_TURN.sub(r"(\1)", text)
