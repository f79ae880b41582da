def metres(done, month):
    rows = done.read(f"out/{month}.csv").splitlines()
    assert len(rows) == 7, f"out/{month}.csv has not all readings"
    heights = [float(row.split(",")[1]) for row in rows[1:]]
    assert max(heights) < 6, f"out/{month}.csv is in feet"
    return max(heights)


def a(done):
    metres(done, "march")


def b(done):
    metres(done, "april")


def c(done):
    assert abs(float(done.read("out/may-max.txt") or 0) - metres(done, "may")) < 0.01, "out/may-max.txt"
