"""What a skill or a block says of the memories of one subject, in their own words."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import PREFIX
from swarm_memory.tools.text.cleaning import harmless, one_line

MAX_TITLE, MAX_WHEN, MAX_STEP, MAX_STEPS = 120, 500, 400, 8
MAX_ENTRY_WHEN = 240

SAID, AVOID = "The user said: ", "Avoid: "
"""Begin the title of an entry; no text of a memory can claim the first."""

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


class Entry(NamedTuple):
    """What stands for one memory. Every text is `plain`."""

    memory_id: str
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

    def texts(self) -> Iterator[str]:
        """Yield every text of it."""
        yield from (self.title, self.when)
        for entry in self.entries:
            yield from filter(None, (entry.title, entry.when, *entry.steps))


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


def written(items: Sequence[MemoryItem]) -> Written:
    """Return the words for a subject, the surest memories first."""
    entries = tuple(map(_entry, sorted(items, key=lambda item: (-item.provenance.standing, -item.confidence, item.id))))
    about = " and ".join(_subjects(items))
    cases = [
        one_line(entry.when.removeprefix("Of use ").removesuffix(".") or entry.title.removeprefix(SAID), 120)
        for entry in entries
    ]
    when = f"What earlier tasks of this project taught{f' about {about}' if about else ''}. Use it in these cases: "
    return Written(
        (about[:1].upper() + about[1:]) or "What earlier tasks taught",
        plain(when + "; ".join(cases), MAX_WHEN),
        entries,
    )


def _entry(item: MemoryItem) -> Entry:
    kind = SAID if item.provenance.is_users_word else AVOID if item.outcome == "Failure" else ""
    title = plain(item.title, MAX_TITLE)
    if title.startswith(SAID.strip()):
        title = title.replace(SAID.strip(), "(said)")
    lines = item.content.strip().splitlines()
    if len(lines) == 1:
        lines = _SENTENCE_END.split(_NUMBERING.sub("", lines[0]))
    steps = [plain(_NUMBERING.sub("", line), MAX_STEP) for line in lines[:MAX_STEPS]]
    steps = [step for step in steps if step and step != plain(item.title, MAX_STEP)]
    return Entry(item.id, kind + title, plain(item.description, MAX_ENTRY_WHEN), tuple(steps))
