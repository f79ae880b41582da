def a(done):
    code = "from kiln.curve import soak; print(soak('1h30', 2))"
    assert done.run(f'python3 -c "{code}"').startswith("45\n"), "soak takes no text"
    assert "exit 0" in done.run("python3 -m unittest"), "the tests fail"
    assert "done at 1245, step 41" in done.answer, "the last line of the plan is not in the answer"


def b(done):
    assert done.read("plans/tile.txt").strip() == "heat to 1130\ntile: done at 1130, step 37", "plans/tile.txt"


def c(done):
    assert done.read("plans/raku.txt").strip() == "heat to 980\nraku: done at 980, step 32", "plans/raku.txt"
