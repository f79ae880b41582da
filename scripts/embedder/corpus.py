"""Gathers the text the shipped table is trained on; it knows nothing of the model.

Every snippet comes from software installed on the machine or unpacked from public packages: docstrings and the
functions under them, headings and paragraphs, manual pages, package synopses, and conversations. Snippets that share a
13-word run with a held-out evaluation set are left out.
"""

import argparse
import ast
import functools
import gzip
import json
import random
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SHINGLE_WORDS = 13
MAX_TEXT_CHARS = 1_500
SEED = 20_261_121

_WORD = re.compile(r"[a-z0-9]+")
_ROFF_ESCAPE = re.compile(r"\\f[A-Z]|\\f\(..|\\f\[[^]]*\]|\\[,/&:]|\\s[-+]?\d")
_MARKUP = re.compile(r"<[^>]+>|\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Snippet:
    """One training text: ``text`` is what a person would ask or say, ``pair`` what should be found by it."""

    kind: str
    text: str
    pair: str = ""


Reader = Callable[[Path], Iterator[Snippet]]


def words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def one_line(text: str) -> str:
    return " ".join(text.split())


def python_snippets(root: Path) -> Iterator[Snippet]:
    """Yield (first paragraph of the docstring, the function without it), and now and then the function whole."""
    for path in sorted(root.rglob("*.py")):
        try:
            source = path.read_text("utf-8")
            tree = ast.parse(source)
        except (OSError, ValueError, SyntaxError, RecursionError):
            continue
        lines = source.splitlines()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _function_snippets(node, lines)


def _function_snippets(node: ast.FunctionDef | ast.AsyncFunctionDef, lines: list[str]) -> Iterator[Snippet]:
    docstring = ast.get_docstring(node)
    if not docstring or node.end_lineno is None or len(node.body) < 2:
        return
    summary = one_line(docstring.split("\n\n")[0])[:300]
    doc_node = node.body[0]
    head, body = lines[node.lineno - 1 : doc_node.lineno - 1], lines[doc_node.end_lineno or 0 : node.end_lineno]
    if len(summary) < 12 or not 2 <= len(body) <= 60:
        return
    yield Snippet("code", summary, "\n".join(head + body)[:MAX_TEXT_CHARS])
    yield Snippet("function", "\n".join(lines[node.lineno - 1 : node.end_lineno])[:MAX_TEXT_CHARS])


def markdown_snippets(root: Path) -> Iterator[Snippet]:
    """Yield (heading, paragraph) of README-like files, and each paragraph."""
    for path in sorted([*root.rglob("*.md"), *root.rglob("*.rst"), *root.rglob("METADATA"), *root.rglob("README*")]):
        try:
            text = path.read_text("utf-8", "replace")[:40_000]
        except OSError:
            continue
        heading = ""
        for block in re.split(r"\n\s*\n", text):
            if block.startswith("#") and "\n" not in block.strip():
                heading = block.lstrip("# ").strip()
                continue
            paragraph = one_line(_MARKUP.sub(r"\1", block))
            if 60 <= len(paragraph) <= MAX_TEXT_CHARS and len(words(paragraph)) >= 0.12 * len(paragraph):
                yield Snippet("prose", paragraph)
                if len(heading) >= 12:
                    yield Snippet("heading", heading, paragraph)


def manual_snippets(root: Path) -> Iterator[Snippet]:
    """Yield (the NAME line of a manual page, the first paragraph of its description)."""
    for path in sorted(root.rglob("*.gz")):
        try:
            source = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
        except (OSError, EOFError, gzip.BadGzipFile):
            continue
        name, description = _manual_section(source, "NAME"), _manual_section(source, "DESCRIPTION")
        if " - " in name and len(description) > 60:
            yield Snippet("manual", name.split(" - ", 1)[1][:300], description[:600])


def _manual_section(source: str, title: str) -> str:
    match = re.search(rf'^\.S[hH] "?{title}"?\s*$(.*?)(?=^\.S[hH] |\Z)', source, re.MULTILINE | re.DOTALL)
    if match is None:
        return ""
    kept = [line for line in match[1].splitlines() if not line.startswith((".", "'"))]
    return one_line(_ROFF_ESCAPE.sub("", " ".join(kept)).replace("\\-", "-"))


def service_snippets(root: Path) -> Iterator[Snippet]:
    """Yield (name of an operation in words, its documentation) from botocore's service descriptions."""
    for path in sorted(root.rglob("service-2.json.gz")):
        operations = json.loads(gzip.decompress(path.read_bytes()))["operations"]
        for name, operation in sorted(operations.items()):
            documentation = one_line(_MARKUP.sub(" ", operation.get("documentation", "")))[:500]
            if len(documentation) > 60:
                yield Snippet("service", " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+", name)), documentation)


def synopsis_snippets() -> Iterator[Snippet]:
    """Yield the one-line descriptions of Debian's packages."""
    dump = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    for line in dump.splitlines():
        if line.startswith("Description: "):
            yield Snippet("synopsis", line.removeprefix("Description: "))


def chitchat_snippets(root: Path) -> Iterator[Snippet]:
    """Yield each turn of the chitchat-dataset's conversations with the turn that answers it."""
    for path in root.rglob("chitchat_dataset/dataset.json"):
        for conversation in json.loads(path.read_text("utf-8")).values():
            turns = [one_line(" ".join(message["text"] for message in turn)) for turn in conversation["messages"]]
            for turn, answer in zip(turns, [*turns[1:], ""], strict=True):
                if 5 <= len(words(turn)) <= 120:
                    yield Snippet("conversation", turn[:MAX_TEXT_CHARS], answer[:MAX_TEXT_CHARS])


def letter_snippets(root: Path) -> Iterator[Snippet]:
    """Yield what people wrote in the wanted mail of the SpamAssassin corpus, paragraph by paragraph."""
    for path in sorted(root.rglob("*ham*/*.txt")):
        _, _, body = path.read_text("utf-8", "replace").partition("\n\n")
        for block in re.split(r"\n\s*\n", body):
            paragraph = one_line(block)
            quoted = block.lstrip().startswith((">", "|", "--", "_"))
            if not quoted and 40 <= len(paragraph) <= 800 and "http" not in paragraph and "=" not in paragraph:
                yield Snippet("letter", paragraph)


def sentence_snippets(root: Path) -> Iterator[Snippet]:
    """Yield the longer sentences of nlp-corpus, which stand alone there."""
    for path in sorted(root.rglob("builds/doc-*.json")):
        for sentence in json.loads(path.read_text("utf-8")):
            if 40 <= len(sentence) <= 600:
                yield Snippet("story", one_line(sentence))


def held_out_shingles(folder: Path) -> set[tuple[str, ...]]:
    """Return every 13-word run of the evaluation sets below ``folder``."""
    found: set[tuple[str, ...]] = set()
    for path in [*folder.rglob("*.jsonl"), *folder.rglob("*.json")]:
        for text in _strings(path):
            found.update(shingles(text))
    return found


def _strings(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    pending = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else [json.loads(text)]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)


def shingles(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the 13-word runs of ``text``; a shorter text is one run."""
    found = words(text)
    for start in range(max(1, len(found) - SHINGLE_WORDS + 1)):
        yield tuple(found[start : start + SHINGLE_WORDS])


def choose(snippets: Iterable[Snippet], count: int, held_out: set[tuple[str, ...]]) -> tuple[list[Snippet], int]:
    """Return ``count`` distinct snippets at random, and how many candidates the held-out sets excluded."""
    distinct = sorted({(s.kind, s.text, s.pair) for s in snippets})
    random.Random(SEED).shuffle(distinct)
    kept: list[Snippet] = []
    excluded = 0
    for candidate in (Snippet(*fields) for fields in distinct):
        if len(kept) == count:
            break
        if any(run in held_out for text in (candidate.text, candidate.pair) if text for run in shingles(text)):
            excluded += 1
            continue
        kept.append(candidate)
    return kept, excluded


def sources(args: argparse.Namespace) -> dict[str, tuple[Callable[[], Iterator[Snippet]], int]]:
    """Return the generator of each kind and how many snippets of it are sampled."""

    @functools.cache
    def read(reader: Reader, root: Path) -> list[Snippet]:
        return list(reader(root))

    def over(reader: Reader, roots: list[Path], kind: str) -> Callable[[], Iterator[Snippet]]:
        return lambda: (s for root in roots for s in read(reader, root) if s.kind == kind)

    code, text, talk = args.python, args.python + args.text, args.talk
    return {
        "code": (over(python_snippets, code, "code"), 22_000),
        "function": (over(python_snippets, code, "function"), 6_000),
        "prose": (over(markdown_snippets, text, "prose"), 8_000),
        "heading": (over(markdown_snippets, text, "heading"), 5_000),
        "manual": (over(manual_snippets, args.text, "manual"), 6_000),
        "service": (over(service_snippets, code, "service"), 4_000),
        "synopsis": (synopsis_snippets, 25_000),
        "conversation": (over(chitchat_snippets, talk, "conversation"), 24_000),
        "letter": (over(letter_snippets, talk, "letter"), 5_000),
        "story": (over(sentence_snippets, talk, "story"), 10_000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", type=Path, nargs="+", required=True, help="folders of installed Python packages")
    parser.add_argument("--text", type=Path, nargs="*", default=[], help="folders with READMEs and manual pages")
    parser.add_argument(
        "--talk", type=Path, nargs="*", default=[], help="folders with the unpacked conversation packages"
    )
    parser.add_argument("--held-out", type=Path, help="evaluation data whose text must not be trained on")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    held_out = held_out_shingles(args.held_out) if args.held_out else set[tuple[str, ...]]()
    with args.out.open("w", encoding="utf-8") as out:
        for kind, (read, count) in sources(args).items():
            kept, excluded = choose(read(), count, held_out)
            print(f"{kind}: {len(kept)} kept, {excluded} shared text with a held-out set")
            for snippet in kept:
                out.write(json.dumps({"kind": snippet.kind, "text": snippet.text, "pair": snippet.pair}) + "\n")


if __name__ == "__main__":
    main()
