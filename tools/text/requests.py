"""A request to remember something, and what is to be remembered."""

import re

_LEAD = re.compile(
    r"(?:(?:please|and|also|so|bitte)[\s,]+)*"
    r"(?:(?:do not|don['\u2019]t) forget|remember|note|keep in mind|know|merk(?:e)? dir|denk dran|\u8bb0\u4f4f)(?!\w)"
    r"(?:\s+(?:this\s+|it\s+)?(?:for (?:the )?(?:next time|later|future)|from now on))?"
    r"[\s:,\uff1a\uff0c]*(?:that\b[\s:,]*|this\s*:\s*)?(?=\S)",
    re.IGNORECASE,
)
"""How one begins when one asks to be remembered; "remember to …" and "note how …" are advice and stay."""
_ADVICE = re.compile(r"(?:to|how|when|where|what|which|why|of|about)\b", re.IGNORECASE)


def without_request(text: str) -> str:
    """Return what was said without the request to remember it before it."""
    asked = _LEAD.match(text)
    if asked is None or _ADVICE.match(text, asked.end()):
        return text
    return begun(text[asked.end() :])


def begun(text: str) -> str:
    """Return a sentence that begins with a capital letter; a name such as `pnpm` or iOS stays."""
    return text[:1].upper() + text[1:] if text[:1].islower() and not text[1:2].isupper() and " " in text else text
