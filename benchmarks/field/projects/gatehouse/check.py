def committed(done, ticket, reader, file):
    shown = done.run("git log -1 --stat --format=%B main")
    assert f"({ticket})" in shown.splitlines()[0], "nothing with the ticket was committed"
    assert f"Seen-by: {reader}" in shown, "who has seen it is not said"
    assert file in shown, f"{file} was not committed"
    assert "NOTES" in shown, "NOTES was not committed"


def a(done):
    committed(done, "GH-81", "Tova", "gatehouse/gate.py")
    assert done.run("python3 -c 'from gatehouse.gate import *; print(open_at(0))'").startswith("0\n"), "open_at(0)"


def b(done):
    committed(done, "GH-94", "Rudi", "gatehouse/gate.py")
    code = "from gatehouse.gate import *; print(close_at(8), close_at(20))"
    assert done.run(f"python3 -c '{code}'").startswith("18 6\n"), "close_at"


def c(done):
    committed(done, "GH-97", "Tova", "README.md")
    assert "clock" in done.read("README.md"), "README.md"
