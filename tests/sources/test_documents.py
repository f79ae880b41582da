"""Documents as passages: by structure, in every encoding, and no exception except the one that names the fault."""

import io
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from made_files import written
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources import pdf
from swarm_memory.server.sources.documents import page, read_documents
from swarm_memory.tools.sources.chunks import MAX_WORDS, OVERLAP_WORDS, word_count


def passages(root: Path) -> list[Passage]:
    return [passage for group in read_documents(root) for passage in group.parse()]


def groups(root: Path) -> list[str]:
    return [group.group for group in read_documents(root)]


def sentences(count: int) -> str:
    return " ".join(f"Sentence number {number} says something of its own here." for number in range(count))


def test_a_long_text_becomes_chunks_of_about_500_words_that_repeat_about_50(tmp_path: Path) -> None:
    written(tmp_path / "long.txt", sentences(300))
    found = passages(tmp_path)
    lengths = [word_count(each.content) for each in found]
    assert all(400 <= length <= MAX_WORDS for length in lengths[:-1])
    assert [each.position for each in found] == list(range(len(found)))
    for first, second in pairwise(found):
        shared = max(
            size for size in range(OVERLAP_WORDS + 1) if first.content.split()[-size:] == second.content.split()[:size]
        )
        assert 40 <= shared <= OVERLAP_WORDS


def test_sections_are_chunks_titled_by_the_document_and_the_headings_above_with_the_lines_of_the_file(
    tmp_path: Path,
) -> None:
    body = sentences(20)
    text = f"# Guide\n\nIntro.\n\n## Install\n\n{body}\n\n### Linux\n\n{body}\n\n\n## Use\n\n{body}\n"
    written(tmp_path / "guide.md", text)
    assert [(each.title, each.line, each.end_line) for each in passages(tmp_path)] == [
        ("Guide > Install", 1, 7),
        ("Guide > Install > Linux", 9, 11),
        ("Guide > Use", 14, 16),
    ]


def test_a_code_fence_and_a_table_that_fit_are_never_cut(tmp_path: Path) -> None:
    fence = "```python\n" + "\n".join(f"value_{n} = {n} + 1  # step {n}" for n in range(60)) + "\n```"
    table = "| a | b |\n| --- | --- |\n" + "\n".join(f"| row {n} | cell {n} |" for n in range(70))
    written(tmp_path / "mixed.md", f"{sentences(30)}\n\n{fence}\n\n{sentences(30)}\n\n{table}\n\n{sentences(30)}\n")
    found = passages(tmp_path)
    assert sum(fence in each.content for each in found) == 1
    assert sum(table in each.content for each in found) == 1
    assert sum("value_5 =" in each.content or "row 5 |" in each.content for each in found) == 2


def test_secrets_are_redacted_before_the_text_is_cut_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    lines = [f"{number:064}" for number in range(200)]
    key = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----\n\nThe last line.\n"))
    written(tmp_path / "a.md", f"{sentences(40)}\n\n{key}")
    for before in range(440, 456):
        written(tmp_path / f"{before}.txt", "1, " * before + '"password": "Qx7tR2mPw9z", ' + "2, " * 200)
    found = passages(tmp_path)
    kept = [line for line in (*lines, "Qx7t") if any(line in each.content for each in found)]
    assert (kept, found[-1].end_line) == ([], 206)


def test_a_heading_in_a_code_fence_is_none(tmp_path: Path) -> None:
    written(tmp_path / "a.md", f"# Real\n\n```\n# not a heading\n```\n\n{sentences(20)}\n")
    assert [each.title for each in passages(tmp_path)] == ["Real"]


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("Käse und Brot".encode(), None),
        (b"\xef\xbb\xbf" + "Käse und Brot".encode(), None),
        ("Käse und Brot".encode("utf-16"), "utf-16"),
        ("Käse und Brot".encode("latin-1"), "cp1252"),
    ],
)
def test_each_encoding_is_read_and_one_that_is_not_utf8_is_said(
    tmp_path: Path, data: bytes, encoding: str | None
) -> None:
    written(tmp_path / "a.txt", data)
    (found,) = passages(tmp_path)
    assert found.content == "Käse und Brot"
    assert found.data.get("encoding") == encoding


def test_a_file_that_is_binary_or_too_large_is_a_fault_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.sources.documents.MAX_TEXT_BYTES", 1000)
    written(tmp_path / "a.md", b"\x00\x01\x02" * 100)
    written(tmp_path / "b.md", "fine")
    written(tmp_path / "c.md", "much too long a text" * 100)
    binary, good, large = read_documents(tmp_path)
    for bad, reason in ((binary, r"a\.md is binary"), (large, "larger than 1,000 bytes")):
        with pytest.raises(InputError, match=reason):
            bad.parse()
    assert [each.content for each in good.parse()] == ["fine"]


def test_html_becomes_sections_without_scripts(tmp_path: Path) -> None:
    rows = "<tr><th>Name</th><th>Price</th></tr><tr><td>Tea | green</td><td>3</td></tr>"
    table = f"<h1>Shop</h1><p>All &amp; more.</p><h2>Prices</h2><table>{rows}</table>"
    body = f"{table}<pre>a\n  b</pre><ul><li>one<li>two</ul>"
    written(
        tmp_path / "shop.html",
        f"<title>My shop</title><script>var hidden=1</script><style>x{{}}</style>{body}<!-- gone -->",
    )
    (found,) = passages(tmp_path)
    assert found.title == "My shop > Shop > Prices"
    assert "hidden" not in found.content
    assert "gone" not in found.content
    assert "| Name | Price |\n| --- | --- |\n| Tea \\| green | 3 |" in found.content
    assert "```\na\n  b\n```" in found.content
    assert "- one\n- two" in found.content
    assert found.line is None


@pytest.mark.parametrize(
    "piece", ["<!--", "<a ", '<a "', "<a '", "<script>", "<![CDATA[", "<!x", "&amp", "<div><", "<td>", "<pre>"]
)
def test_a_broken_page_takes_linear_time(piece: str) -> None:
    assert page(piece * 100_000).text is not None


def test_gitignore_nested_and_negated_and_the_defaults_are_respected(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    left_out = ("b.md", "drafts/c.md", "node_modules/d.md", "docs/build/f.md")
    for name in ("a.md", "drafts/keep.md", "vendor/e.md", *left_out):
        written(tmp_path / name, "text")
    written(tmp_path / ".gitignore", "b.md\n!vendor/\n")
    written(tmp_path / "drafts/.gitignore", "*.md\n!keep.md\n")
    assert groups(tmp_path) == ["a.md", "drafts/keep.md", "vendor/e.md"]
    written(tmp_path / ".git/info/exclude", "a.md\n")
    assert groups(tmp_path) == ["drafts/keep.md", "vendor/e.md"]


def test_a_folder_in_a_repository_obeys_the_gitignore_above_it_unless_it_is_ignored_itself(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    written(tmp_path / ".gitignore", "secret.md\n/notes/\n")
    for name in ("docs/a.md", "docs/secret.md", "notes/b.md"):
        written(tmp_path / name, "text")
    assert groups(tmp_path / "docs") == ["a.md"]
    assert groups(tmp_path / "notes") == ["b.md"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    written(outside / "secret.md", "secret")
    inside = tmp_path / "inside"
    written(inside / "a.md", "text")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    assert groups(inside) == ["a.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8 exist there only")
def test_a_name_that_is_no_utf8_is_said_in_utf8(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.md", "w") as stream:  # noqa: PTH123 - a name in bytes
        stream.write("text")
    assert [each.path for each in passages(tmp_path)] == ["caf\ufffd.md"]


def test_the_hash_changes_with_the_bytes_and_not_with_the_time(tmp_path: Path) -> None:
    path = written(tmp_path / "a.md", "one")
    first = [group.content_hash for group in read_documents(tmp_path)]
    os.utime(path, (1, 1))
    assert [group.content_hash for group in read_documents(tmp_path)] == first
    written(tmp_path / "a.md", "two")
    assert [group.content_hash for group in read_documents(tmp_path)] != first


def test_a_file_named_itself_is_read_whatever_it_is_called(tmp_path: Path) -> None:
    assert [each.content for each in passages(written(tmp_path / "notes.xyz", "text"))] == ["text"]


def pdf_bytes(*texts: str, password: str | None = None, title: str | None = None) -> bytes:
    """Make a PDF with one page for each text."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in texts:
        sheet = writer.add_blank_page(300, 300)
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
        sheet[NameObject("/Contents")] = writer._add_object(content)  # pyright: ignore[reportPrivateUsage]
        sheet[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    if title is not None:
        writer.add_metadata({"/Title": title})
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def test_a_pdf_gives_its_title_text_and_pages(tmp_path: Path) -> None:
    data = pdf_bytes(sentences(50), sentences(45), title="Annual report")
    assert len(PdfReader(io.BytesIO(data)).pages) == 2
    written(tmp_path / "report.pdf", data)
    found = passages(tmp_path)
    assert [(each.title, each.data["page"], each.line) for each in found] == [
        ("Annual report", 1, None),
        ("Annual report", 1, None),
    ]
    assert "Sentence number 44 says" in found[-1].content


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf_bytes("secret", password="geheim"), "is encrypted"),
        (b"%PDF-1.7 and then nothing", "is not a readable PDF"),
        (b"", "is not a readable PDF"),
        (pdf_bytes(""), "contains no text"),
        (pdf_bytes("cut")[:200], "is not a readable PDF"),
    ],
)
def test_a_pdf_that_cannot_be_read_is_a_fault_and_the_rest_goes_on(tmp_path: Path, data: bytes, reason: str) -> None:
    written(tmp_path / "a.pdf", data)
    written(tmp_path / "b.md", "fine")
    bad, good = read_documents(tmp_path)
    with pytest.raises(InputError, match=reason):
        bad.parse()
    assert bad.group == "a.pdf"
    assert len(good.parse()) == 1


def test_a_pdf_that_takes_too_long_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.pdf", pdf_bytes("slow"))
    monkeypatch.setattr(pdf, "TIMEOUT_S", 0.001)
    with pytest.raises(InputError, match="took longer than 0 s to read"):
        pdf.read_pdf(path)


def test_without_the_extra_a_pdf_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "is_available", lambda: False)
    path = written(tmp_path / "a.pdf", pdf_bytes("x"))
    with pytest.raises(ConfigError, match=r"swarm-memory\[pdf\]"):
        list(read_documents(path))
    (group,) = read_documents(tmp_path)
    with pytest.raises(InputError, match=r"swarm-memory\[pdf\]"):
        group.parse()
