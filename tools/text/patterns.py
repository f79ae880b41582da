"""Patterns that are compiled when they are first used: a hook, which a person waits for, needs few of them.

Hook commands import it, so it imports nothing that costs time.
"""

import re


def lazy(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return what does all that the compiled pattern does; a wrong one raises `re.error` at its first use."""
    return _Lazy(text, flags)  # pyright: ignore[reportReturnType] - it passes everything on


class _Lazy:
    def __init__(self, text: str, flags: int) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> object:
        value = self.__dict__[name] = getattr(re.compile(*self._given), name)
        return value
