def passed(done, name, rows):
    assert done.read(f"patterns/{name}.txt").split() == rows, f"patterns/{name}.txt"
    assert {f"good patterns/{name}.txt", "good all"} & set(done.log("loomcheck")), "loomcheck did not pass"


def a(done):
    passed(done, "herring", ["xxoxxo", "xoxxox", "oxxoxx", "xoxxox"])


def b(done):
    passed(done, "plain", ["xoxoxo", "oxoxox"] * 3)


def c(done):
    passed(done, "twill", ["ooxxoo", "xooxxo", "xxooxx", "oxxoox"])
