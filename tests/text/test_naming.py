"""What a text names exactly."""

import pytest

from swarm_memory.tools.text.tokens import names_in, shares_a_name


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Always `sh release.sh signed`", {"sh release.sh signed", "release.sh"}),
        ("Look into ./src/app.py and --dry-run of make_all", {"src/app.py", "--dry-run", "make_all"}),
        ("Read docs/guide/ first, not a/b/c", {"docs/guide/", "a/b/c"}),
        ("Answer in German and/or English, e.g. shortly. Use CI/CD. Say yes/no", set[str]()),
        ("Ship it. Then rest.", set[str]()),
    ],
)
def test_files_commands_and_identifiers_are_names_and_plain_words_are_none(text: str, names: set[str]) -> None:
    assert names_in(text) == names


def test_two_texts_share_a_name_however_it_is_marked() -> None:
    assert shares_a_name("Make the release with release.sh.", "Always `sh release.sh signed`")
    assert shares_a_name("Run make test", "Use `make test` for that")
    assert not shares_a_name("Show the badge: `sh badges.sh`", "Always `sh release.sh signed`")
