"""What a task is: which prompts begin, continue, correct or praise one."""

import re
from typing import Literal

from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN, parse_ids
from swarm_memory.tools.text.patterns import lazy

_MAX_NOTES_CHARS = 12_000
"""Longer than any preamble: a frame that was opened and never closed is cut no further than this."""

_NOTED_ID = lazy(r"(?<![A-Za-z0-9_])rm_[0-9A-HJKMNP-TV-Z]{26}(?![A-Za-z0-9])")
_OWN_TOOL = lazy(
    r"mcp__[A-Za-z0-9_-]{0,100}?swarm[-_]memory[A-Za-z0-9-]{0,40}__|(?:mcp_{1,2})?swarm[-_]memory[-_./]{1,2}\w"
)
"""Claude Code names a tool `mcp__SERVER__TOOL`, Gemini CLI `mcp_SERVER_TOOL`, others `SERVER_TOOL` or `SERVER-TOOL`."""
_HOST_BLOCKS = (
    "system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "task-notification", "hook_context",
)  # fmt: skip
_HOST_TEXT = lazy(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout|stderr)"
    r"|user-memory-input|task-notification|teammate-message|system-reminder)\b|\[Request interrupted\b)"
)
_SLASH_COMMAND = lazy(r"/[A-Za-z][\w:.-]{0,80}(?:\s|$)")
_LEAD_CHARS = 600
"""What a prompt is about is said at its beginning; the rest is not looked at."""

_CJK = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"  # compiled where it is needed: hooks wait 2 ms for it


def _words(*patterns: str) -> str:
    """Return a pattern to be compiled when it is first needed: a hook command has no time for all of them."""
    return f"(?i:{'|'.join(patterns)})"


CORRECTION_ANYWHERE = _words(
    r"\bstill\s+(?:\w+\s+){0,3}(?:fail|broken|wrong|not|no |doesn|don'?t|isn|won'?t|crash|error|red|miss"
    r"|see(?:ing)?|get(?:ting)?|happen|there|the same)",
    r"\b(?:that|this|it)(?:'s| is| was)\s+(?:\w+\s+){0,2}(?:wrong|incorrect|not (?:right|correct|true"
    r"|what|it|how|the)|broken|stupid|terrible|useless)",
    r"\b(?:does|did|do)(?: not|n'?t)\s+(?:\w+\s+)?(?:work|help|fix|compile|build|pass|run|change anything"
    r"|do what|solve)\b",
    r"\b(?:is|are)(?: not|n'?t)\s+(?:\w+\s+)?(?:work|fix|pass|build|compil)",
    r"\b(?:not|isn'?t) what i\b",
    r"\byou(?:'ve| have)?\s+(?:just\s+)?(?:broke|forgot|missed|misunderstood|ignored|deleted|overwrote"
    r"|skipped|did(?: not|n'?t))\b",
    r"\bi (?:said|told you|asked (?:you )?(?:for|to)|did(?: not|n'?t) (?:ask|want|say|mean))\b",
    r"\b(?:try|do it) again\b",
    r"\b(?:same|another) (?:error|problem|failure|issue|result)\b",
    r"\b(?:revert|undo|roll ?back) (?:that|this|it|your|the last|what you|all)\b",
    r"\bwhy did you\b",
    r"\b(?:now|still) (?:it|they|the \w+(?: \w+)?) (?:fails?|crash(?:es)?|breaks?|errors?|is broken|throws)\b",
    r"\b(?:geht|funktioniert|klappt|läuft)\b(?: \w+){0,3} (?:nicht|nich)\b",
    r"\b(?:ist|war|das ist) (?:\w+ )?(?:falsch|kaputt)\b|\bschlägt (?:\w+ ){0,2}fehl\b|\bimmer noch\b",
    r"还是(?:不|没|失败|报错|错|有问题)|不对|错了|不行|不是这样|没有?(?:用|效果|修好|解决)|仍然|依然|又(?:失败|报错)",
)
CORRECTION_START = _words(
    r"(?:no|nope|nah|wrong|incorrect|stop|revert|undo|not (?:quite|right|that|like|there|yet|correct|good"
    r"|fixed|working))\b(?! (?:longer|more|matter))",
    r"still\b|again[,:!]? (?:fail|broken|the same)|(?:hmm+|ugh|wtf|argh)\b",
    r"(?:it|that|this) (?:fails|failed|broke|crashes|crashed|breaks|errors|throws)\b",
    r"(?:don'?t|do not) (?:do|use|touch|change|delete|remove) (?:that|this|it)\b",
    r"(?:nein|falsch|stopp|nicht so|noch ?mal)\b",
    r"不是|不要|重新|再试",
)
APPROVAL = _words(
    r"\b(?:thanks|thank you|thx|ty|cheers)\b",
    r"^(?:great|perfect|awesome|excellent|amazing|nice|lovely|wonderful|brilliant|fantastic|lgtm"
    r"|good (?:job|work)|well done|looks? (?:good|great)|cool)\b",
    r"\b(?:it|that|this|everything|all) (?:now )?(?:works|worked|passes|passed|builds|did it|fixed it"
    r"|solved it|did the trick)\b",
    r"\b(?:works|working|fixed|passing|solved) (?:now|great|perfectly|fine|well)\b",
    r"\b(?:that|this|it)(?:'s| is) (?:\w+ )?(?:right|correct|perfect|great|good|better|exactly|what i wanted)\b",
    r"\blooks (?:good|great|perfect)\b|\ball (?:green|good)\b|\bwell done\b",
    r"\b(?:danke|perfekt|super|prima|klasse|passt|funktioniert jetzt|geht jetzt)\b",
    r"谢谢|多谢|太好了|完美|很好|不错|成功了|可以了|好了",
)
NEGATED_TROUBLE = _words(r"\bno (?:more )?(?:errors?|failures?|problems?|issues?|warnings?|complaints)\b")
ADMISSION = _words(
    r"\bmy (?:own )?(?:mistake|bad|fault|error|apologies)\b",
    r"\bi(?:'m| am| was|'ve been| have been) (?:\w+ )?(?:wrong|mistaken|confused)\b",
    r"\bi (?:\w+ )?(?:gave|told|sent|pasted|wrote|pointed|copied|typed|used|picked|asked)\b(?: \w+){0,4} wrong\b",
    r"\bi (?:misread|misspoke|misremembered|mixed (?:\w+ )?up|made (?:a|the) (?:mistake|typo|error))\b",
    r"\bmein (?:fehler|irrtum)\b|\bich (?:hatte|habe) mich (?:geirrt|vertan|verschrieben)\b",
    r"我的错|我(?:搞|弄|说|写)?错了",
)
"""The user speaks of a mistake of his own: the clause says nothing of the work."""

_CLAUSE_END = lazy(r"(?<=[.!?;。!])\s*|,? (?=(?:but|however|aber)\b)")
THANKS_LEAD = _words(
    r"(?:(?:(?:good|great|nice) (?:job|work)|ok(?:ay)?|alright|right|sure|yes|yep|yeah"
    r"|great|perfect|awesome|excellent|amazing|nice|cool"
    r"|good|lovely|thanks|thank you|thx|lgtm"
    r"|looks good|looks great|well done|very much|so much|a lot"
    r"|that works|it works|works|now|danke|super|perfekt|prima|ok)"
    r"\b[\s,.!;:)-]*)+",
    r"(?:谢谢|好的|太好了|很好|完美)[,.!,。!\s]*",
)
NEW_TASK = _words(
    r"(?:new|next|another|different|separate|unrelated|other) (?:task|topic|question|issue|thing|problem"
    r"|feature|project|ticket|bug)\b",
    r"(?:unrelated(?:ly)?|on another note|separately|changing topics?|switching (?:gears|topics?)"
    r"|moving on|let'?s move on|forget (?:that|about)|never ?mind)\b",
    r"(?:neue aufgabe|anderes thema|nächste aufgabe)\b|新任务|下一个任务|另一个问题|换个话题",
)
CONTINUES_START = _words(
    r"(?:continue|go on|go ahead|proceed|carry on|keep (?:going|trying)|resume|finish (?:it|that|this|up)"
    r"|do (?:it|that|this|so|both|all)|yes|yep|yeah|yup|y|no|nope|n|sure|correct|exactly|right)\b",
    r"(?:also|and|but|or|then|instead|actually|wait|rather|additionally|plus|besides|otherwise|only|just"
    r"|except|same|both|neither|all of|oh|oops|hmm+|btw)\b",
    r"(?:what|how) about\b|(?:and|but|so) (?:what|why|how|now)\b|why\?|why (?:did|is|does|not"
    r"|are)\b(?=.{0,60}\b(?:it|that|this|you)\b)",
    r"(?:retry|rerun|re-run|redo|try|again|once more|one more)\b",
    r"(?:i (?:meant|mean|forgot|said|told|also|still)|to be clear|to clarify|as i said|let me clarify"
    r"|please (?:continue|proceed|also|try|redo|retry))\b",
    r"(?:use|with|without|not|never|leave|keep|skip|ignore|remove|drop|rename|undo|revert) (?:it|that"
    r"|this|them|those|the (?:first|second|last|old|new|other)|option)\b",
    r"(?:option|number|choice|step|the (?:first|second|third|last|other|former"
    r"|latter)(?: one)?)\b(?: ?\w{1,2})?[.!]?$",
    r"(?:commit|push|merge|ship|deploy|release|run|test|check|verify|show|explain|fix|format|lint) (?:it"
    r"|that|this(?! (?:repo|project|code))|them|everything|all|again"
    r"|the (?:tests?|suite|linter|build|changes?|diff|code|result))\b",
    r"(?:weiter|mach|ja|nein|nochmal|noch einmal|jetzt|und|auch|aber|dann|stattdessen|versuch|probier"
    r"|bitte weiter|genau|stimmt)\b",
    r"继续|再|是的|是|对|不|好|可以|然后|现在|接着|另外|还有|也|但|那|改成|用|试",
    r"[-*•]\s|\d{1,2}[.)]?$",
    r"(?:traceback \(most recent|error:|e   |failed |fail:|panic:|npm err!|exception)",
)
NOW_LEAD = _words(r"(?:now|next|then|after that|ok now|finally|lastly)\b")
ANAPHORA = _words(
    r"\b(?:it|its|that|those|them|these|they|same|the (?:errors?|tests?|output|result|changes?|fix"
    r"|failure|rest|others?|former|latter|diff|bug you|one|ones))\b",
    r"\bthis\b(?! (?:repo|repository|project|codebase|code base|folder|directory|package|library|app"
    r"|application|file|function|module|class|script|week|month|year|branch))",
    r"\b(?:die tests|dasselbe|damit|das (?:auch|noch|bitte|jetzt))\b|[这那它]个?",
)
EXPLETIVE_IT = _words(
    r"\b(?:is it (?:possible|ok|worth)|it (?:would|should|seems?|looks? like|is (?:possible|important"
    r"|time))|so that|make sure that|such that|that (?:can|will|is|are|has|have|does|takes?|reads?"
    r"|returns?|prints?|converts?|lists?))\b"
)
RELATIVE_THAT = _words(r"\b(?:an?|the|any|some|every|each|all|no|new)\s+(?:[\w.`'-]+\s+){1,4}?that\b(?=\s+\w)")
"""A "that" which opens a clause about a noun before it and points at nothing outside the prompt."""

INTRODUCED = _words(
    r"\b(?:an?|some|another)\s+[\w.`'-]+(?:\s+[\w.`'-]+){0,6}?(?:,| and| then| and then|, then)"
    r"\s+\w+\s+(?:it|them|its)\b"
)
"""Something new is named and then spoken of: "write a parser and test it"."""

YOUR_DOING = _words(
    r"\byou(?:'ve| have)? (?:just |already |also )?(?:did|made|wrote|changed|added|removed|said|used"
    r"|created|put|broke|found|suggested|proposed|mentioned|moved|renamed|fixed|tried|chose|picked)\b",
    r"\byour (?:last|previous|change|changes|fix|answer|code|edit|commit|patch|solution|approach|plan"
    r"|suggestion|implementation|test|tests|version)\b",
    r"\b(?:did|have|are|were|can|could|would) you (?:able|also|test(?:ed)?|run|ran|check(?:ed)?|sure"
    r"|really|try|tried|done|finish(?:ed)?|commit(?:ted)?|forget|miss|see)\b",
)


def session_task_id(session_id: str, number: int) -> str:
    """Return the id of a task of a host's session; the first has number 1."""
    return f"{session_id}:{number}"


def strip_notes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` without the notes that we injected, and the ids of the memories that they named."""
    kept, notes = _cut(text, NOTES_OPEN, NOTES_CLOSE, _MAX_NOTES_CHARS)
    return kept, tuple(dict.fromkeys(memory_id for note in notes for memory_id in parse_ids(note)))


def _cut(text: str, opening: str, closing: str, most: int | None = None) -> tuple[str, list[str]]:
    """Return `text` without its blocks, and these; one that is never closed has `most` characters, or is none."""
    kept: list[str] = []
    blocks: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start, None if most is None else start + most)
        if end < 0 and most is None:
            break
        kept.append(text[position:start])
        position = start + (most or 0) if end < 0 else end + len(closing)
        blocks.append(text[start:position])
    return "".join([*kept, text[position:]]), blocks


def noted_ids(text: str) -> tuple[str, ...]:
    """Return the distinct ids of memories in `text`, wherever they stand, in order."""
    return tuple(dict.fromkeys(_NOTED_ID.findall(text)))


def is_own_tool(tool_name: str) -> bool:
    """Tell whether a tool, as the host names it, is one of this server's."""
    return _OWN_TOOL.match(tool_name) is not None


def task_text(prompt: str) -> str:
    """Return what the person said: the prompt without injected notes and the host's own blocks."""
    text, _ = strip_notes(prompt)
    for name in _HOST_BLOCKS:
        text, _ = _cut(text, f"<{name}>", f"</{name}>")
    return text.strip()


def is_task_prompt(prompt: str) -> bool:
    """Tell whether a prompt asks for something: not empty, no slash command, not written by the host."""
    text = task_text(prompt)
    return bool(text) and not _SLASH_COMMAND.match(text) and not _HOST_TEXT.match(text)


def feedback(text: str) -> Literal["correction", "approval"] | None:
    """Tell what a prompt says of the work done so far; None where it says nothing of it.

    A correction weighs more than thanks in the same prompt. A long prompt speaks of the past only at its beginning.
    """
    lead = _lead(text)
    if _corrects(lead):
        return "correction"
    return "approval" if re.search(APPROVAL, _opening(lead)) or re.match(NEGATED_TROUBLE, lead) else None


def continues(prompt: str, task: str) -> bool:
    """Tell whether `prompt` corrects or continues the running `task`; False: it begins a new one.

    In doubt a prompt that stands on its own begins a new task. The answer depends on the words of the prompt only,
    and on `task` only when the prompt repeats it, so that hooks and transcripts, which see the task redacted or not,
    divide a session alike.
    """
    lead = _lead(prompt)
    if not lead or lead == _lead(task):
        return True
    if re.match(NEW_TASK, re.sub(THANKS_LEAD, "", lead, count=1) or lead) or re.match(NEW_TASK, lead):
        return False
    if _corrects(lead) or re.search(ADMISSION, _opening(lead)):
        return True
    led = re.match(THANKS_LEAD, lead)
    rest = lead[led.end() :] if led else lead
    return (
        not rest
        or (re.match(CONTINUES_START, lead) is not None and _is_short(lead, 60))
        or _follows(rest, led is not None)
    )


def _follows(rest: str, after_lead: bool) -> bool:
    """Tell whether what is left after thanks or an "ok" leans on what was done before."""
    if re.match(CONTINUES_START, rest) or _is_short(rest, 2, cjk=6):
        return True
    if re.match(NOW_LEAD, rest) and _is_short(rest, 12, cjk=20):
        return True
    if after_lead and _is_short(rest, 6, cjk=12):
        return True
    if re.search(YOUR_DOING, rest) and _is_short(rest, 40):
        return True
    return _is_short(rest, 12, cjk=15) and _points_back(rest)


def _points_back(text: str) -> bool:
    """Tell whether a pronoun stands for something outside `text`."""
    for inner in (EXPLETIVE_IT, RELATIVE_THAT, INTRODUCED):
        text = re.sub(inner, " ", text)
    return re.search(ANAPHORA, text) is not None


def _corrects(lead: str) -> bool:
    if re.search(ADMISSION, lead):
        lead = " ".join(clause for clause in _CLAUSE_END.split(lead) if not re.search(ADMISSION, clause))
    calm = re.sub(NEGATED_TROUBLE, " ", lead)
    if re.match(CORRECTION_START, calm):
        return True
    return re.search(CORRECTION_ANYWHERE, _opening(calm)) is not None


def _opening(lead: str) -> str:
    """Return where a prompt may speak of the past: all of a short one."""
    return lead if len(lead.split()) + _cjk(lead) // 2 <= 25 else lead[:80]


def _lead(text: str) -> str:
    head = task_text(text[: 4 * _LEAD_CHARS] if NOTES_OPEN not in text and "<" not in text else text)[:_LEAD_CHARS]
    return re.sub(r"\s+", " ", head.replace("\u2019", "'")).strip().lower()


def _cjk(text: str) -> int:
    return 0 if text.isascii() else len(re.findall(_CJK, text))


def _is_short(text: str, words: int, *, cjk: int | None = None) -> bool:
    characters = _cjk(text)
    if characters:
        return characters <= (words * 2 if cjk is None else cjk)
    return len(text.split()) <= words
