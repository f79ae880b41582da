def a(done):
    assert "25" in done.run("python3 -m rota total"), "a shift is still counted twice"


def b(done):
    want = {"Bo\t2026-03-02T13:15:00Z", "Ona\t2026-03-04T05:55:00Z"}
    assert set(done.run("python3 -m rota late").splitlines()) == want | {"exit 0"}, "late gives another output"
    assert set(done.read("late.txt").splitlines()) == want, "late.txt"


def c(done):
    said = done.read("next.txt")
    assert "2026-03-04T05:30:00Z" in said, "the start is wrong, or not in UTC as 2026-02-03T09:00:00Z"
    assert "7" in said.replace("2026-03-04T05:30:00Z", ""), "the length"
