"""Recognize what a person wants kept: a request to remember, an order for each time, or one that is meant once only;
and find which words of a prompt are its writer's own, not pasted, quoted or reported.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping

from swarm_memory.tools.text.cleaning import lazy, one_line
from swarm_memory.tools.text.tokens import tokenize, words_as_written

_LEAD = re.compile(
    r"(?:(?:please|and|also|so|bitte)[\s,]+|\u8bf7)*"
    r"(?:(?:do not|don['\u2019]t) forget|remember|note|keep in mind|know|merk(?:e)? dir|denk dran|\u8bb0\u4f4f)(?!\w)"
    r"(?:\s+(?:this\s+|it\s+)?(?:for (?:the )?(?:next time|later|future)|from now on))?"
    r"[\s:,\uff1a\uff0c]*(?:that\b[\s:,]*|this\s*:\s*)?(?=\S)",
    re.IGNORECASE,
)
"""How a request to remember something begins; "remember to …" and "note how …" are advice and stay."""
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
"""After "always" or "never", these words show that a sentence asks for no action but says how things are."""

_ONCE = lazy(
    r"\b(?:just|only|for) (?:this|the|that) (?:once|one|time|run|commit|pr|branch|task|change)\b|\b(?:just|only) once\b"
    r"|\bthis (?:one )?(?:time|once)\b|\bfor (?:now|today|the (?:moment|time being))\b|\b(?:today|tonight) only\b"
    r"|\btemporarily\b|\bdiesmal\b|\b(?:nur|bloß) (?:jetzt|heute|einmal|dies\w*)\b|\bdieses (?:eine )?mal\b"
    r"|\bausnahmsweise\b|\bvorerst\b|\bfür (?:heute|jetzt|den moment)\b|这一?次|这回|暂时|仅此一次|今天先",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"(?:[,;:](?=\s)|[\uff0c\u3002\uff1b\uff1a\uff01])\s*(?:(?:and|but|then|und|aber)\s)?")
CONDITION = lazy(
    r"\W*(?<!\w)(?:in|on|at|for|with|when|whenever|if|before|after|while|where|during|unless|wenn|falls|bei|beim|vor|nach|für"
    r"|im|am|während)\b|[在当对若]|如果|每次",
    re.IGNORECASE,
)
"""The beginning of a sentence whose first part says when the rest holds."""
_LABEL_WORDS = 2
"""At most this many words before a colon are a subject: "Commit messages: always …"."""
_POINTS_BACK = lazy(r"\b(?:it|its|them|they|these|those)\b", re.IGNORECASE)
"""Words that refer to the part before: what follows makes no sense without it."""

_TITLE_CHARS, LEAST_CHARS = 100, 3
_MARKUP = re.compile(r"^[\s#>*•-]+|^\d{1,3}[.)]\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")

_QUESTION = re.compile(r"[?\uff1f\u5417]\W*$")

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_TAG = re.compile(r"\s*<([A-Za-z][\w-]*)(?:\s[^<>]*)?>")
_CLOSING_TAG = re.compile(r"</([A-Za-z][\w-]*)>")
_QUOTED_LINE = re.compile(r"\s*(?:>|<[\w .-]{1,30}>\s)")
_INDENTED = re.compile(r"(?: {4}|\t)(?!\s*(?:\d{1,2}[.)]|[-*•])\s)")

_RECORD = lazy(
    r"\s*(?:[$%]\s|>>>|\[[^\]\s][^\]]{0,60}\]\s|\(?\d{4}-\d\d-\d\d|\d{1,2}:\d\d\b|\w{3} +\d{1,2} \d\d:\d\d"
    r"|(?:\w+ )?(?-i:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR!|FATAL|CRITICAL|PANIC|FAIL|FAILED|HINT)\b"
    r"|(?:[\w./-]+: )*(?:warning|error|fatal|hint|panic)(?: ?\S*\d\S*)?:|[\w./-]+:\d+:|\w+(?:Error|Exception):"
    r"|at \S+ ?\(|Traceback \(|File \")",
    re.IGNORECASE,
)
"""A line that a program wrote: it begins with a time, a level, a place in a file or a prompt."""

_HEAD = 4
"""How many lines may hold the header of a mail."""

_HEADER = lazy(
    r"\s*(?:from|to|cc|sent|date|subject|von|an|gesendet|datum|betreff|发件人|收件人|主题|日期)\s?[:\uff1a]",
    re.IGNORECASE,
)
_MAIL = lazy(
    r"\s*(?:-{2,} ?(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht)"
    r"|(?:on|am) \S.{0,100} (?:wrote|schrieb)\b.{0,60}:\s*$"
    r"|@?\w[\w .-]{0,40}[ ,\[(]+\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?[\])]?:?\s*$)",
    re.IGNORECASE,
)
"""The line above somebody else's message; all that follows is theirs."""

_SAYS = (
    r"(?:(?<!\bi )(?<!\bwe )(?<!\bich )(?<!\bwir )(?<!ve )(?<!already )(?<!just )\b(?:says|said|tells|told"
    r"|writes|wrote|reads|states|stated|claims|claimed|prints|printed|shows|warns|warned|suggests|suggested|recommends"
    r"|recommended|complains|complained|repl(?:ies|ied)|answers|answered|asks|asked|mentions|mentioned|insists"
    r"|insisted|posted|sagt|sagte|schreibt|schrieb|meint|meinte|meldet|meldete|empfiehlt|behauptet|steht|heißt)\b"
    r"|(?<!我)(?:说|写道|提示|建议|回复))"
)
_TEXTS = (
    r"\b(?:logs?|output|errors?|messages?|e-?mails?|readme|docs?|documentation|traceback|stack ?trace|tickets?|issues?"
    r"|comments?|reviews?|chat|threads?|articles?|posts?"
    r"|guides?|guidelines?|manual|wiki|handbook|tutorial|policy|answers?|page|changelog|minutes|transcript"
    r"|fehler\w*|ausgabe|meldung|nachricht|protokoll|doku\w*|kommentar\w*)\b|日志|报错|错误|输出|邮件|消息|文档|评论"
)
_PRESENTS = lazy(f"(?:{_SAYS}|{_TEXTS})", re.IGNORECASE)
"""In a line that ends with a colon: what follows is somebody else's text."""

_REPORTED = lazy(
    rf"{_SAYS}(?:\s?[,\uff0c]|(?: \w+){{0,2}}(?: (?:that|to|we|you|they|he|she|it|dass|wir|man)\b"
    r"|\s?[:\uff1a]|(?=\s?[\"“„«「'`])))"
    r"(?:\s*[\"“„«「][^\"“”»」\n]*[\"“”»」]?|[^.!?\u3002\uff01\uff1f\n]*)",
    re.IGNORECASE,
)
_COLON = re.compile(r"[:\uff1a]\s*$")
_QUOTATION = lazy(
    r"\"[^\"\n]{2,}\"|\u201c[^\u201d\n]+\u201d|\u201e[^\u201c\u201d\n]+[\u201c\u201d]|«[^»\n]+»|»[^«\n]+«"
    r"|「[^」\n]+」|『[^』\n]+』|(?<!\w)'[^'\n]{2,}'(?!\w)|(?<!\w)\u2018[^\u2019\n]{2,}\u2019(?!\w)|`[^`\n]+`"
)
"""Words that are quoted, not said."""


def asks_to_be_kept(sentence: str) -> bool:
    """Whether a sentence asks for something to be remembered; "remember to …" is advice for this task."""
    asked = _KEEP.match(sentence)
    return asked is not None and not _ADVICE.match(sentence, asked.end() + 1)


def asks_each_time(sentence: str) -> bool:
    """Whether a sentence gives an order for each time: "Never push to main", but not "Never saw this before"."""
    return each_time_start(sentence) is not None


def each_time_start(sentence: str) -> int | None:
    """Return where the part of a sentence begins that is wanted each time: after the task, with its condition.

    None where nothing is wanted each time, where the words only add to the task ("Write a helper: always wait"), or
    where they are too few ("return a list, never None").
    """
    for found in _EACH_TIME.finditer(sentence):
        word = (found["next"] or "").lower()
        is_bent = (found["adverb"] or "").lower() in ("always", "never") and word.endswith(("s", "ed", "ing"))
        if word not in _NO_ACTION and not (is_bent and tokenize(word) != (word,)):
            break  # an action is asked for
    else:
        return None
    begin = max(found.start("adverb"), found.end() - len(found[0].lstrip(" ,;:\uff0c\u3002\uff1b\uff1a\uff01")))
    at = max((each.end() for each in _SEPARATOR.finditer(sentence, 0, begin)), default=0)
    if not at or CONDITION.match(sentence):
        return 0
    if sentence[:at].rstrip().endswith((":", "\uff1a")):
        return 0 if len(words_as_written(sentence[:at])) <= _LABEL_WORDS else None
    if _POINTS_BACK.search(sentence, at):
        return None if found["adverb"] else 0
    around = sentence[found.end() :] if found["adverb"] else sentence[at : found.start()] + sentence[found.end() :]
    if len(words_as_written(around)) + bool(found["next"]) > 1:
        return at
    return None if found["adverb"] else 0


def is_meant_once(sentence: str) -> bool:
    """Whether a sentence is meant for this time only."""
    return _ONCE.search(sentence) is not None


def is_question(sentence: str) -> bool:
    """Whether a sentence is a question, and so states nothing."""
    return _QUESTION.search(sentence) is not None


def without_request(text: str) -> str:
    """Return what was said without the request to remember it before it."""
    asked = _LEAD.match(text)
    if asked is None or _ADVICE.match(text, asked.end()):
        return text
    return capitalized(text[asked.end() :])


def capitalized(text: str) -> str:
    """Return a sentence beginning with a capital letter; a name such as `pnpm` or iOS stays."""
    return text[:1].upper() + text[1:] if text[:1].islower() and not text[1:2].isupper() and " " in text else text


def title_of(said: str) -> str:
    """Return the first sentence of what was said, or its line, or all, if that is too short; at most 100 characters."""
    lines = (_MARKUP.sub("", line).strip() for line in said.splitlines())
    line = next((line for line in lines if line), said)
    ended = (each.rstrip(" .,;:") for each in (_SENTENCE_END.split(line, maxsplit=1)[0], line))
    return capitalized(one_line(next((each for each in ended if len(each) >= LEAST_CHARS), said), _TITLE_CHARS))


def own_words(text: str) -> str:
    """Return the writer's own words in a prompt: without what is pasted, quoted or reported in it.

    Pasted is a block that is set off (fenced, tagged, indented, after ">"), what a program wrote, a mail or a message
    with its header, and all that a line ending in a colon introduces as a text or as somebody's words. A block that the
    line before it asks to keep counts as the writer's own, and so does prose that nothing sets off. Linear.
    """
    return "\n".join(_REPORTED.sub("", line) for line in _own_lines(text.splitlines())).strip()


def blank_quotations(text: str) -> str:
    """Return a text of the same length in which everything within quotation marks or backticks is blank."""
    return _QUOTATION.sub(lambda found: found[0][0] + " " * (len(found[0]) - 2) + found[0][-1], text)


def _own_lines(lines: list[str]) -> Iterator[str]:
    closings: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        for name in _CLOSING_TAG.findall(line):
            closings[name].append(number)
    at, before, is_asked = 0, "", False
    while at < len(lines):
        line = lines[at]
        if (end := _end_of_block(lines, at, before, closings)) > at:
            yield from lines[at:end] if is_asked else ()
            at = end
            continue
        # A mail or a message begins, with at least two lines of its header or with the line that names its writer.
        headers = [bool(_HEADER.match(each)) for each in lines[at : at + _HEAD]]
        if _MAIL.match(line) or (headers[0] and sum(headers) > 1):
            return
        yield line
        before, at = line, at + 1
        if not line.strip():
            continue
        is_asked = bool(_COLON.search(line)) and (asks_to_be_kept(line) or asks_each_time(line))
        if _COLON.search(line) and not is_asked and _PRESENTS.search(line):
            at = next((number for number in range(at, len(lines)) if lines[number].strip()), len(lines))
            if at < len(lines) and _end_of_block(lines, at, "", closings) == at:
                return


def _end_of_block(lines: list[str], at: int, before: str, closings: Mapping[str, list[int]]) -> int:
    """Return where the block that begins at line `at` ends; `at` itself if none begins there."""
    line = lines[at]
    if fence := _FENCE.match(line):
        closing = (number for number in range(at + 1, len(lines)) if lines[number].strip().startswith(fence[1]))
        return next(closing, len(lines) - 1) + 1
    if tag := _TAG.match(line):
        ends = closings.get(tag[1], [])
        later = ends[bisect_left(ends, at) :]
        return later[0] + 1 if later else at
    is_set_off = _QUOTED_LINE.match(line) or _RECORD.match(line) or (_INDENTED.match(line) and not before.strip())
    return at + 1 if is_set_off else at
