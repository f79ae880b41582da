"""What a task is: which prompts begin, continue, correct or praise one."""

from typing import Literal

from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN, lazy, parse_ids

_NOTED_ID = lazy(r"(?<![A-Za-z0-9_])rm_[0-9A-HJKMNP-TV-Z]{26}(?![A-Za-z0-9])")
_OWN_TOOL = lazy(
    r"mcp__[A-Za-z0-9_-]{0,100}?swarm[-_]memory[A-Za-z0-9-]{0,40}__|(?:mcp_{1,2})?swarm[-_]memory[-_./]{1,2}\w"
)
"""Claude Code names a tool `mcp__SERVER__TOOL`, Gemini CLI `mcp_SERVER_TOOL`, others `SERVER_TOOL` or `SERVER-TOOL`."""
_HOST_BLOCKS = ("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "task-notification",
                "hook_context")  # fmt: skip
_HOST_TEXT = lazy(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout|stderr)"
    r"|user-memory-input|task-notification|teammate-message|system-reminder)\b|\[Request interrupted\b)"
)
_SLASH_COMMAND = lazy(r"/[A-Za-z][\w:.-]{0,80}(?:\s|$)")
_LEAD_CHARS = 600
"""Characters of a prompt that are examined: what it is about is said at its beginning."""

_CJK = lazy(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")

_CORRECTS = lazy(
    r"^(?:no(?!,? (?:that's )?my| longer| matter| worries| (?:more )?(?:errors?|failures?|problems?|issues?|warnings?))"
    r"|nope|nah|wrong|incorrect|stopp?|revert|undo|not (?:quite|right|that|like|there|yet|correct|good|fixed|working)"
    r"|nein|falsch|nicht so|noch ?mal|hmm+,? (?:same|still|no)|ugh|wtf)\b"
    r"|^(?:it|that|this) (?:fail(?:s|ed)|broke|breaks|crash(?:es|ed)|errors|throws)\b|^(?:不是|不要|重新|再试)"
    r"|\bstill (?:\w+ ){0,3}(?:not?\b|(?:does|do|is|wo)n't|fail|broken?\b|wrong|crash|error|red\b|miss|see|get|happen"
    r"|there|the same)|\bnow (?:it|they|the \w+(?: \w+)?) (?:fails?|crash(?:es)?|breaks?|throws?|is broken)\b"
    r"|\b(?:it|this|that)(?:'s| is| was) (?:\w+ ){0,2}(?:wrong|incorrect|broken|stupid|terrible|useless"
    r"|not (?:right|correct|true|it\b|what|how))|^(?:don't|do not) (?:do|use|touch|delete|remove) (?:that|this|it)\b"
    r"|\b(?:do(?:es)?|did|is|are)(?: not|n't) (?:\w+ )?(?:work|fix|compil|build|pass|run\b|solve|look right|do what)"
    r"|\byou(?:'ve| have)? (?:just )?(?:broken?|forgot|missed|misunderstood|ignored|deleted|overwrote|skipped)\b"
    r"|\bi (?:said|told you(?! the wrong)|asked (?:you|for|to)|did(?: not|n't) (?:ask|want|say|mean))\b|\bnot what i\b"
    r"|\bwhy did you\b|\b(?:try|do it) again\b|\b(?:same|another) (?:error|problem|failure|issue|result)\b"
    r"|\b(?:revert|undo|roll ?back) (?:that|this|it|your|all|the last|what you)\b|\byou did(?: not|n't)\b"
    r"|\b(?:geht|funktioniert|klappt|läuft)(?: \w+){0,3} nicht\b|\bimmer noch\b|\bschlägt (?:\w+ ){0,2}fehl\b"
    r"|\b(?:ist|war) (?:\w+ )?(?:falsch|kaputt)\b"
    r"|还是(?:不|没|失败|报错|错|有问题)|不对|(?<![我搞弄说写])错了|不行|不是这样|没有?(?:用|效果|修好|解决)|仍然|依然|又(?:失败|报错)"
)
_PRAISE = (
    r"(?:good|great|nice) (?:job|work)|great|perfect|awesome|excellent|amazing|nice|lovely|cool|lgtm|well done"
    r"|looks (?:good|great)|(?:it|that|this) works|thanks|thank you|thx|cheers|danke|super|perfekt|prima"
)
_APPROVES = lazy(
    rf"^(?:{_PRAISE})\b|\b(?:thanks|thank you|thx|danke|well done|looks (?:good|great|perfect)|all (?:green|good))\b"
    r"|\b(?:it|that|this|everything|all) (?:now )?(?:works|worked|passes|passed|builds|fixed it|solved it|did)\b"
    r"|\b(?:works|working|fixed|passing|solved) (?:now|great|perfectly|fine|well)\b|\b(?:funktioniert|geht) jetzt\b"
    r"|\b(?:that|this|it)(?:'s| is) (?:\w+ )?(?:right|correct|perfect|great|good|better|exactly|what i wanted)\b"
    r"|谢谢|多谢|太好了|完美|很好|不错|成功了|可以了|好了"
)
_LEAD = lazy(
    rf"^(?:(?:{_PRAISE}|good|ok(?:ay)?|alright|right|sure|yes|yep|yeah|very much|so much|a lot|now)\b[\s,.!;:)-]*)+"
    r"|^(?:谢谢|好的|太好了|很好|完美)[,.!,。!\s]*"
)
"""Thanks or an "ok" before the actual request."""

_NEW_TASK = lazy(
    r"(?:new|next|another|different|unrelated|other) (?:task|topic|question|issue|problem|feature|bug)\b|unrelated"
    r"|forget that|(?:let's )?mov(?:e|ing) on\b|never ?mind\b|(?:neue|nächste) aufgabe\b|新任务|下一个任务|换个话题"
)
_LEANS = lazy(
    r"(?:please )?(?:continue|go (?:on|ahead)|proceed|carry on|keep (?:going|trying)|resume|retry|re-?run|redo|try"
    r"|yes|yep|yeah|yup|y|no(?:pe)?|n|sure|correct|exactly|right|not|also|and|but|or|then|instead|actually|wait|rather"
    r"|plus|besides|otherwise|only|just|except|same|both|oh|oops|hmm+|btw|(?:what|how) about|(?:to|let me) clarify"
    r"|again|onc?e more|(?:can|could) you also|did you|are you sure|i (?:meant?|forgot|said|told|also|still|mixed)"
    r"|(?:sorry|oh)?,? ?(?:my (?:mistake|bad|fault|error)|i (?:was wrong|misread|(?:gave|sent) you|pasted)|mein fehler)"
    r"|weiter|mach|ja|nein|noch ?mal|noch einmal|und|auch|aber|dann|stattdessen|bitte weiter|genau|stimmt)\b"
    r"|我(?:搞|弄|说|写)错了|继续|再|是|对|不|好|可以|然后|接着|另外|还有|也|但|那|改成|用|试"
    r"|.{0,80}\byou (?:just )?(?:did|made|wrote|changed|added|removed|used|created|put|suggested|moved|renamed)\b"
    r"|.{0,80}\byour (?:last|previous|changes?|fix|code|edit|commit|patch|solution|approach|plan|tests?)\b"
    r"|[-*•] |\d{1,2}[.)]?$|traceback \(most recent|error:|failed |fail:|panic:|npm err!|exception"
)
"""How a prompt begins when it answers, adds to what was said, pastes a result, or speaks about the agent's work."""

_POINTS_BACK = lazy(
    r"^(?:now|next|then|after that|finally|jetzt|现在)|\b(?:it|its|that|those|them|these|they|same|everything)\b"
    r"|\bthe (?:errors?|tests?|output|result|changes?|fix|failure|rest|others?|diff|\w+ one|ones)\b|[这那它]"
    r"|\bthis\b(?! (?:repo|app|(?:project|code ?base|folder|library|file|function|module|class|script|week|month)\b))"
)
_POINTS_NOWHERE = lazy(
    r"\b(?:is it (?:possible|ok|worth)|(?:so|such|sure) that|(?<=\w )that (?:can|will|are|have|(?!this)\w+s)"
    r"|(?:an?|the|any|some|every|each|all|no|new) (?:[\w.`'-]+ ){1,4}?that(?= \w)"
    r"|(?:an?|some|another) [\w.`'-]+(?: [\w.`'-]+){0,6}?(?:,| and| then|, then) \w+ (?:it|them|its))\b"
)
"""A pronoun with its noun in the same prompt: a relative clause, or a new thing as in "write a parser and test it"."""


def session_task_id(session_id: str, number: int) -> str:
    """Return the id of a task in a host's session; the first task has number 1."""
    return f"{session_id}:{number}"


def strip_notes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` without the notes that we injected, and the ids of the memories that they named."""
    kept, notes = _cut(text, NOTES_OPEN, NOTES_CLOSE)
    return kept, parse_ids(notes)


def _cut(text: str, opening: str, closing: str) -> tuple[str, str]:
    """Return `text` without the parts between `opening` and `closing`, and those parts; an unclosed part stays."""
    closed, end, rest = text.rpartition(closing)
    kept, *framed = (closed + end).split(opening)
    inside = [each.partition(closing) for each in framed]
    return "".join([kept, *(after for _, _, after in inside), rest]), "\n".join(each for each, _, _ in inside)


def find_memory_ids(text: str) -> tuple[str, ...]:
    """Return the distinct memory ids found anywhere in `text`, in order."""
    return tuple(dict.fromkeys(_NOTED_ID.findall(text)))


def is_own_tool(tool_name: str) -> bool:
    """Whether a tool, as the host names it, is one of this server's."""
    return _OWN_TOOL.match(tool_name) is not None


def task_text(prompt: str) -> str:
    """Return what the person said: the prompt without injected notes and the host's own blocks."""
    text, _ = strip_notes(prompt)
    for name in _HOST_BLOCKS:
        text, _ = _cut(text, f"<{name}>", f"</{name}>")
    return text.strip()


def is_task_prompt(prompt: str) -> bool:
    """Whether a prompt asks for something: not empty, not a slash command, not written by the host."""
    text = task_text(prompt)
    return bool(text) and not _SLASH_COMMAND.match(text) and not _HOST_TEXT.match(text)


def feedback(text: str) -> Literal["correction", "approval"] | None:
    """Return what a prompt says about the work done so far; None when it says nothing about it.

    A correction outweighs thanks in the same prompt. A long prompt speaks about past work only at its beginning.
    """
    said = _opening(_lead(text))
    return "correction" if _CORRECTS.search(said) else "approval" if _APPROVES.search(said) else None


def continues(prompt: str, task: str) -> bool:
    """Whether `prompt` corrects or continues the running `task`; False: it begins a new one.

    When in doubt, a prompt that stands on its own begins a new task. The answer depends on the prompt's words, and on
    `task` only when they repeat it, so hooks and transcripts divide a session alike, whether `task` is redacted or not.
    """
    lead = _lead(prompt)
    if not lead or lead == _lead(task):
        return True
    rest = _LEAD.sub("", lead)
    if _NEW_TASK.match(lead) or _NEW_TASK.match(rest):
        return False
    if not rest or _CORRECTS.search(_opening(lead)):
        return True
    words = _length(rest)
    return (
        words <= (6 if rest != lead else 2)
        or (words <= 60 and bool(_LEANS.match(lead) or _LEANS.match(rest)))
        or (words <= 12 and _POINTS_BACK.search(_POINTS_NOWHERE.sub(" ", rest)) is not None)
    )


def _opening(lead: str) -> str:
    """Return the part of a prompt that may speak about past work: all of a short prompt, else its beginning."""
    return lead if _length(lead) <= 25 else lead[:80]


def _lead(text: str) -> str:
    said = task_text(text) if "<" in text else text[: 4 * _LEAD_CHARS].lstrip()
    return " ".join(said[:_LEAD_CHARS].replace("\u2019", "'").split()).lower()


def _length(text: str) -> int:
    """Return how many words a text has; two Chinese, Japanese or Korean characters count as one."""
    return len(text.split()) + len(_CJK.findall(text)) // 2
