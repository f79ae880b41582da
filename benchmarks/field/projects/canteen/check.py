def untouched(done):
    assert done.run("git diff --quiet -- data/blue.csv data/s6.csv data/s8.csv") == "exit 0", "another list was changed"


def a(done):
    untouched(done)
    assert "Mara Quill,yard" in done.read("data/s7.csv").splitlines(), "she is not on the list"


def b(done):
    untouched(done)
    rows = done.read("data/s7.csv").splitlines()
    assert not any("Corin" in row for row in rows), "he is still on the list"
    assert len(rows) == 5, "others went too"


def c(done):
    assert done.read("count.txt").strip() == "2", "count.txt"
