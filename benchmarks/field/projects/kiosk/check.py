def error(done, command):
    said = done.run(f"python3 -m kiosk.{command} 2>/dev/null")
    assert said.startswith("!! ") or "\n!! " in said, "the error is not on stdout after !!"
    assert said.endswith("exit 3"), "the exit code is not 3"


def a(done):
    assert done.run("python3 -m kiosk.price tea") == "1.20\nexit 0", "the price"
    error(done, "price sofa")


def b(done):
    assert done.run("python3 -m kiosk.left tea") == "4\nexit 0", "what is left"
    error(done, "left sofa")


def c(done):
    done.run("git checkout -q stock.json")
    assert done.run("python3 -m kiosk.sell tea") == "3\nexit 0", "what is left after a sale"
    error(done, "sell buns")
