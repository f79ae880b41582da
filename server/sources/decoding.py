"""Bytes of a file as clean text, and in which encoding they were; it opens no file."""

import codecs
import re
from typing import NamedTuple

from swarm_memory.tools.text.cleaning import clean

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 8192
_MAX_CONTROL_SHARE = 0.1
_CONTROL = bytes(set(range(0x20)) - {0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B}) + b"\x7f"
_SPACES = str.maketrans(dict.fromkeys("\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))
"""What Python takes for a line end and an editor does not: a space, so that lines are counted alike."""
_CHARSET = re.compile(rb"(?:charset|encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)


class Decoded(NamedTuple):
    """A file's text, its lines divided by `\\n`, and the encoding it was read in."""

    text: str
    encoding: str


def is_binary(data: bytes) -> bool:
    """Tell whether the bytes are no text: a NUL without a byte order mark, or a tenth of control characters."""
    if data.startswith(tuple(mark for mark, _ in _BOMS)) or _utf16_guess(data) is not None:
        return False
    sample = data[:_SAMPLE_BYTES]
    if b"\0" in sample:
        return True
    return len(sample) - len(sample.translate(None, _CONTROL)) > _MAX_CONTROL_SHARE * len(sample)


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Return the text by byte order mark, `declared` encoding, UTF-8, UTF-16 without mark, or else as Latin-1.

    Never fails: an encoding that does not fit is passed over, and Latin-1 takes every byte (Windows' characters where
    it has them). Control characters, NUL among them, are taken out. Linear in the length.
    """
    text, encoding = _decoded(data, declared)
    return Decoded(clean(text.translate(_SPACES)), encoding)


def declared_charset(data: bytes) -> str | None:
    """Return the encoding that an HTML or XML head names within its first 2,048 bytes, when Python knows it."""
    found = _CHARSET.search(data[:2048])
    if found is None:
        return None
    name = found[1].decode("ascii")
    try:
        info = codecs.lookup(name)
    except LookupError:
        return None
    # A head that can be read as ASCII is not in UTF-16, whatever it says; and no codec that is not of text.
    return info.name if info._is_text_encoding and not info.name.startswith("utf-16") else None  # pyright: ignore


def _decoded(data: bytes, declared: str | None) -> tuple[str, str]:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace"), encoding.removesuffix("-sig")
    for encoding in filter(None, (_utf16_guess(data), "utf-8", declared)):
        try:
            return data.decode(encoding), encoding
        except UnicodeError:
            continue
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeError:
        return data.decode("latin-1"), "latin-1"


def _utf16_guess(data: bytes) -> str | None:
    """Return the byte order of UTF-16 without mark, when a third of the text is ASCII: every other byte is 0 there."""
    sample = data[: _SAMPLE_BYTES - _SAMPLE_BYTES % 2]
    if len(sample) < 8 or len(data) % 2:
        return None
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if odd > len(sample) // 6 and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > len(sample) // 6 and odd == 0 else None
