"""What a person asks to be kept: a request to remember, an imperative about each time; and what is meant once only."""

import re

from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.tokens import tokenize, words_as_written

_LEAD = re.compile(
    r"(?:(?:please|and|also|so|bitte)[\s,]+|\u8bf7)*"
    r"(?:(?:do not|don['\u2019]t) forget|remember|note|keep in mind|know|merk(?:e)? dir|denk dran|\u8bb0\u4f4f)(?!\w)"
    r"(?:\s+(?:this\s+|it\s+)?(?:for (?:the )?(?:next time|later|future)|from now on))?"
    r"[\s:,\uff1a\uff0c]*(?:that\b[\s:,]*|this\s*:\s*)?(?=\S)",
    re.IGNORECASE,
)
"""How one begins when one asks to be remembered; "remember to …" and "note how …" are advice and stay."""
_ADVICE = re.compile(r"(?:to|how|when|where|what|which|why|of|about)\b", re.IGNORECASE)

_KEEP = lazy(
    r"\W*(?:(?:please|bitte|and|also|can|could|would|will|you|kannst|könntest|du)[\s,]+)*"
    r"(?:remember|do not forget|don['\u2019]t forget|keep in mind|merke? dir|dir merken|denk dran)\b|\W*请?记住",
    re.IGNORECASE,
)
_CLAUSE = r"(?:^|[,;:] |[\uff0c\u3002\uff1b\uff1a\uff01]\s*)"
_EACH_TIME = lazy(
    rf"{_CLAUSE}(?:please |and |also |bitte )*(?P<adverb>always|never(?! ?mind)|immer|niemals)\b"
    r"(?:\s+(?P<next>[\w'-]+))?"
    r"|\b(?:from now on|ab jetzt|ab sofort|von jetzt an|in (?:the )?future|künftig|in zukunft)\b"
    rf"|{_CLAUSE}(?:请|那|那么|你)*(?:以后|今后|从现在(?:起|开始))"
    rf"|{_CLAUSE}(?:请|你|要|必须)*(?:总是|始终|从不|永远)(?![^,;\uff0c\u3002\uff1b\uff01]*(?:失败|报错|出错|错误|崩溃|超时|不))",
    re.IGNORECASE,
)
_NO_ACTION = frozenset(
    """
    the a an this that these those it its was were been being had got gets saw seen went gone came ran knew known found
    made took taken gave given told left kept felt meant thought noch wieder mehr weniger nur der die das den dem ein
    eine einen diese dieser dieses dieselbe derselbe dasselbe
    """.split()  # noqa: SIM905 - a paragraph of words reads better than a list of strings
)
"""After "always" or "never": no action is asked for, it says how things are."""

_ONCE = lazy(
    r"\b(?:just|only|for) (?:this|the|that) (?:once|one|time|run|commit|pr|branch|task|change)\b|\b(?:just|only) once\b"
    r"|\bthis (?:one )?(?:time|once)\b|\bfor (?:now|today|the (?:moment|time being))\b|\b(?:today|tonight) only\b"
    r"|\btemporarily\b|\bdiesmal\b|\b(?:nur|bloß) (?:jetzt|heute|einmal|dies\w*)\b|\bdieses (?:eine )?mal\b"
    r"|\bausnahmsweise\b|\bvorerst\b|\bfür (?:heute|jetzt|den moment)\b|这一?次|这回|暂时|仅此一次|今天先",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"(?:[,;:](?=\s)|[\uff0c\u3002\uff1b\uff1a\uff01])\s*(?:(?:and|but|then|und|aber)\s)?")
_CONDITION = lazy(
    r"\W*(?:in|on|at|for|with|when|whenever|if|before|after|while|where|during|unless|wenn|falls|bei|beim|vor|nach|für"
    r"|im|am|während)\b|[在当对若]|如果|每次",
    re.IGNORECASE,
)
"""How a sentence begins whose first part says when the rest holds."""
_LABEL_WORDS = 2
"""A subject before a colon: "Commit messages: always …"."""
_POINTS_BACK = lazy(r"\b(?:it|its|them|they|these|those)\b", re.IGNORECASE)
"""What follows does not stand without the part before it."""

_QUESTION = re.compile(r"[?\uff1f]\W*$")


def asks_to_be_kept(sentence: str) -> bool:
    """Whether one asks for what is said to be remembered; "remember to …" of this task is advice."""
    asked = _KEEP.match(sentence)
    return asked is not None and not _ADVICE.match(sentence, asked.end() + 1)


def asks_each_time(sentence: str) -> bool:
    """Whether a sentence has an imperative about each time: "Never push to main", and not "Never saw this before"."""
    return each_time_from(sentence) is not None


def each_time_from(sentence: str) -> int | None:
    """Return where in a sentence begins what is wanted each time: after the task before it, with its condition.

    None where nothing is, where it says more of the task ("Write a helper: always wait"), or is hardly a word ("return
    a list, never None").
    """
    found = next(filter(_asks_for_an_action, _EACH_TIME.finditer(sentence)), None)
    if found is None:
        return None
    begin = (
        found.start("adverb")
        if found["adverb"]
        else found.start() + len(found[0]) - len(found[0].lstrip(" ,;:\uff0c\u3002\uff1b\uff1a\uff01"))
    )
    at = max((each.end() for each in _SEPARATOR.finditer(sentence, 0, begin)), default=0)
    if not at or _CONDITION.match(sentence):
        return 0
    if sentence[:at].rstrip().endswith((":", "\uff1a")):
        return 0 if len(words_as_written(sentence[:at])) <= _LABEL_WORDS else None
    if _POINTS_BACK.search(sentence, at):
        return None if found["adverb"] else 0
    around = sentence[found.end() :] if found["adverb"] else sentence[at : found.start()] + sentence[found.end() :]
    if len(words_as_written(around)) + bool(found["next"]) > 1:
        return at
    return None if found["adverb"] else 0


def _asks_for_an_action(found: re.Match[str]) -> bool:
    word = (found["next"] or "").lower()
    is_bent = (found["adverb"] or "").lower() in ("always", "never") and word.endswith(("s", "ed", "ing"))
    return word not in _NO_ACTION and not (is_bent and tokenize(word) != (word,))


def is_meant_once(sentence: str) -> bool:
    """Whether it is asked for this time only."""
    return _ONCE.search(sentence) is not None


def is_question(sentence: str) -> bool:
    """Whether it asks, and so says nothing."""
    return _QUESTION.search(sentence) is not None


def without_request(text: str) -> str:
    """Return what was said without the request to remember it before it."""
    asked = _LEAD.match(text)
    if asked is None or _ADVICE.match(text, asked.end()):
        return text
    return begun(text[asked.end() :])


def begun(text: str) -> str:
    """Return a sentence that begins with a capital letter; a name such as `pnpm` or iOS stays."""
    return text[:1].upper() + text[1:] if text[:1].islower() and not text[1:2].isupper() and " " in text else text
