"""What a skill or a block says of the memories of one subject: in a model's words that were checked, else in theirs."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.redact import redact, redact_each
from swarm_memory.tools.guard.screen import reason_of, screen
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.promote.marks import PREFIX
from swarm_memory.tools.text.cleaning import harmless, one_line

PROMPT, PURPOSE = "write_skill", "promote"

MAX_TITLE, MAX_WHEN, MAX_STEP, MAX_STEPS = 120, 500, 400, 8
MAX_ENTRY_WHEN = 240

SAID, AVOID = "The user said: ", "Avoid: "
"""Begin the title of an entry; no text of a memory or of a model can claim the first."""

SUBJECTS = frozenset({
    "accessibility", "android", "angular", "ansible", "api", "architecture", "assets", "async", "audio", "auth",
    "authentication", "aws", "azure", "backend", "backup", "bash", "bazel", "browser", "build", "bundler",
    "cache", "cargo", "celery", "ci", "cli", "cloud", "cmake", "cobol", "code", "compiler", "concurrency",
    "configuration", "containers", "cpp", "csharp", "css", "csv", "data", "database", "debugging",
    "dependencies", "deployment", "design", "django", "docker", "docs", "documentation", "dotnet", "editor",
    "elixir", "email", "embedded", "encoding", "environment", "errors", "express", "fastapi", "files", "flask",
    "fonts", "formatting", "forms", "frontend", "games", "git", "github", "gitlab", "go", "gradle", "graphql",
    "grpc", "haskell", "helm", "html", "http", "https", "images", "imports", "infrastructure", "install",
    "integration", "ios", "java", "javascript", "jest", "json", "julia", "kafka", "kotlin", "kubernetes",
    "laravel", "latex", "licences", "linting", "linux", "localization", "logging", "lua", "macos", "make",
    "markdown", "maven", "memory", "metrics", "migration", "migrations", "mobile", "mocks", "mongodb",
    "monitoring", "monorepo", "mypy", "mysql", "networking", "nginx", "node", "notebooks", "npm", "numpy",
    "oauth", "packaging", "pandas", "parsing", "payments", "performance", "perl", "permissions", "php", "pip",
    "plots", "pnpm", "postgres", "postgresql", "powershell", "prisma", "profiling", "prometheus", "proxy",
    "pytest", "python", "pytorch", "queues", "rails", "react", "redis", "refactoring", "regex", "releases",
    "rest", "review", "ruby", "rust", "scala", "scheduling", "schema", "scripts", "search", "security",
    "server", "settings", "setup", "shell", "spark", "spring", "sql", "sqlite", "ssh", "storage", "styling",
    "svelte", "swift", "tailwind", "terraform", "testing", "tests", "threads", "time", "timezones", "tls",
    "translations", "typescript", "typing", "ui", "unicode", "upload", "uv", "validation", "versions", "vite",
    "vue", "webpack", "websockets", "windows", "xml", "yaml", "yarn",
})  # fmt: skip
"""What a skill can be named after."""

_EVERYDAY = frozenset({"code", "data", "design", "express", "files", "go", "make", "memory", "rest", "review", "search",
                       "spring", "swift", "time"})  # fmt: skip
"""Those that a title has also where it is about something else."""

_WORD = re.compile(r"[a-z]+")
_NUMBERING = re.compile(r"\A\s*(?:\d{1,3}[.)]|[-*\u2022])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_TICKS, _FENCE, _RUN = re.compile("`{2,}"), re.compile("~{3,}"), re.compile(r"!+(?=\s*`)")
_PARAMETER, _VARIABLE = re.compile(r"(?<!\\)\$(?=\d|ARGUMENTS)"), re.compile(r"\$(?=\{CLAUDE)")
_FILE = re.compile(r"(?<![\w\\])@")
_QUOTED = re.compile(r"`([^`\n]+)`")
_TIMEOUT_S = 60.0


class Entry(NamedTuple):
    """What stands for one memory, or for several that belong together. Every text is `plain`."""

    ids: tuple[str, ...]
    title: str
    when: str
    steps: tuple[str, ...]

    @property
    def is_said(self) -> bool:
        """Whether it is what the user said."""
        return self.title.startswith(SAID)


class Written(NamedTuple):
    """The words for one subject. Every text is `plain`."""

    title: str
    when: str
    entries: tuple[Entry, ...]

    def told_of(self, ids: Collection[str]) -> tuple[Entry, ...]:
        """Return the entries that tell none but these memories."""
        return tuple(entry for entry in self.entries if set(entry.ids) <= set(ids))


class WrittenEntry(Answered):
    """One entry as a model writes it."""

    memories: list[int]
    title: str
    when: str
    steps: list[str]


class WrittenSkill(Answered):
    """What the prompt asks for."""

    title: str
    when: str
    entries: list[WrittenEntry]


def plain(text: str, limit: int) -> str:
    """Return a text as one line that means nothing but itself, wherever Markdown is read.

    As `harmless` does; and of what Claude Code acts on in a file that it reads, nothing is left: a command between
    backticks after `!`, which a skill runs; `$1`, `$ARGUMENTS` and `${CLAUDE_…}`, which it fills in; `@file`, read in.
    """
    text = _RUN.sub("", _TICKS.sub("`", _FENCE.sub("~~", harmless(text))))
    text = _VARIABLE.sub("$ ", _PARAMETER.sub(r"\\$", text))
    return one_line(_FILE.sub(r"\\@", text).lstrip("#> "), limit)


def name_of(items: Sequence[MemoryItem], taken: Collection[str]) -> str:
    """Return the name of a new skill: the words of `SUBJECTS` that most of its memories have; none that is taken."""
    words = _subjects(items)
    base = PREFIX + ("-".join(words) or "here")
    numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def _subjects(items: Sequence[MemoryItem]) -> list[str]:
    weights: Counter[str] = Counter()
    for item in items:
        texts = ((item.domain or "", 3), (" ".join(item.tags), 2), (item.title, 1))
        found: dict[str, int] = {}
        for text, weight in texts:
            for word in _WORD.findall(text.lower()):
                if word in SUBJECTS and (weight > 1 or word not in _EVERYDAY):
                    found[word] = max(found.get(word, 0), weight)
        weights.update(found)
    best = sorted(weights, key=lambda word: (-weights[word], word))[:2]
    return [word for word in best if 2 * weights[word] >= weights[best[0]]]


def extractive(items: Sequence[MemoryItem]) -> Written:
    """Return the words of the memories themselves, the surest first."""
    entries = tuple(map(_entry, sorted(items, key=lambda item: (-item.provenance.standing, -item.confidence, item.id))))
    about = " and ".join(_subjects(items))
    cases = [_case(entry) for entry in entries]
    when = f"What earlier tasks of this project taught{f' about {about}' if about else ''}. Use it in these cases: "
    return Written(
        (about[:1].upper() + about[1:]) or "What earlier tasks taught",
        plain(when + "; ".join(cases), MAX_WHEN),
        entries,
    )


def _case(entry: Entry) -> str:
    return one_line(entry.when.removeprefix("Of use ").removesuffix(".") or entry.title.removeprefix(SAID), 120)


def _entry(item: MemoryItem) -> Entry:
    kind = SAID if item.provenance.is_users_word else AVOID if item.outcome == "Failure" else ""
    steps = [step for step in map(_step, _lines(item.content)) if step and step != plain(item.title, MAX_STEP)]
    return Entry((item.id,), kind + _title(item.title), plain(item.description, MAX_ENTRY_WHEN), tuple(steps))


def _title(text: str) -> str:
    title = plain(text, MAX_TITLE)
    return title.replace(SAID.strip(), "(said)") if title.startswith(SAID.strip()) else title


def _lines(content: str) -> list[str]:
    lines = content.strip().splitlines()
    return (_SENTENCE_END.split(_NUMBERING.sub("", lines[0])) if len(lines) == 1 else lines)[:MAX_STEPS]


def _step(line: str) -> str:
    return plain(_NUMBERING.sub("", line), MAX_STEP)


async def written(model: ChatModel | None, items: Sequence[MemoryItem]) -> tuple[Written, str | None]:
    """Return the words for a subject, and why they are not the model's where one was asked."""
    own = extractive(items)
    if model is None:
        return own, None
    shown = "\n\n".join(_shown(number, item) for number, item in enumerate(items, 1))
    prompt = render(load_prompt(PROMPT), given={}, untrusted={"memories": shown})
    try:
        answer, name = await ask(model, prompt, WrittenSkill, purpose=PURPOSE, effort=Effort(_TIMEOUT_S))
    except ModelUnavailable as error:
        return own, one_line(redact(f"no model wrote it: {error}").text, 300)
    if isinstance(answer, Unparsed):
        return own, f"the answer of {name} cannot be used: {answer.reason}"
    found = await asyncio.to_thread(_checked, answer, items, own)
    return (own, f"the words of {name} were refused: {found}") if isinstance(found, str) else (found, None)


def _shown(number: int, item: MemoryItem) -> str:
    kind = "what the user said" if item.provenance.is_users_word else "avoid" if item.outcome == "Failure" else "do"
    lines = (f"Memory {number} ({kind}): {item.title}", item.description, item.content)
    return "\n".join(redact_each([line for line in lines if line]))


def _checked(answer: WrittenSkill, items: Sequence[MemoryItem], own: Written) -> Written | str:
    """Return a model's words as they may stand, or what is wrong: none may name a command that no memory names.

    Each memory is told once; what the user said stands in the user's words.
    """
    told = [number for entry in answer.entries for number in entry.memories]
    if sorted(told) != list(range(1, len(items) + 1)) or not all(entry.memories for entry in answer.entries):
        return "they do not tell each memory once"
    by_id = {entry.ids[0]: entry for entry in own.entries}
    entries: list[Entry] = []
    for entry in answer.entries:
        of = [items[number - 1] for number in entry.memories]
        if any(item.provenance.is_users_word for item in of):
            entries += [by_id[item.id] for item in of]
            continue
        if len({item.outcome for item in of}) > 1:
            return "they mix what to do with what to avoid"
        if new := _foreign([entry.title, entry.when, *entry.steps], of):
            return f"they name `{one_line(harmless(new), 60)}`, which no memory of theirs does"
        avoid = AVOID if of[0].outcome == "Failure" else ""
        steps = tuple(step for step in map(_step, entry.steps[:MAX_STEPS]) if step)
        title = _title(entry.title)
        if not title or not steps:
            return "an entry of theirs says nothing"
        entries.append(Entry(tuple(item.id for item in of), avoid + title, plain(entry.when, MAX_ENTRY_WHEN), steps))
    if new := _foreign([answer.title, answer.when], items):
        return f"they name `{one_line(harmless(new), 60)}`, which no memory does"
    made = Written(
        plain(answer.title, MAX_TITLE) or own.title, plain(answer.when, MAX_WHEN) or own.when, tuple(entries)
    )
    texts = list(texts_of(made))
    if redact_each(texts) != texts:
        return "they hold what must be taken out"
    findings = screen("\n".join(texts))
    return reason_of(findings) if findings else made


def _foreign(texts: Iterable[str], items: Sequence[MemoryItem]) -> str | None:
    known = " ".join(word for item in items for word in item.embedding_text.split()).lower()
    quoted = (" ".join(span.split()) for text in texts for span in _QUOTED.findall(text))
    return next((span for span in quoted if span.lower() not in known), None)


def texts_of(words: Written) -> Iterator[str]:
    """Yield every text of it."""
    yield from (words.title, words.when)
    for entry in words.entries:
        yield from filter(None, (entry.title, entry.when, *entry.steps))
