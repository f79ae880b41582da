def whole(done, what, count):
    rows = done.read(f"out/{what}.csv").splitlines()[1:]
    assert len(rows) == count, f"out/{what}.csv has {len(rows)} of {count} names"


def a(done):
    whole(done, "authors", 6)


def b(done):
    whole(done, "illustrators", 5)


def c(done):
    whole(done, "translators", 6)
    assert "6" in done.answer or "six" in done.answer.lower(), "the number is not in the answer"
