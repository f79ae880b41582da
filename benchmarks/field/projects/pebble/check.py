def given(done, call):
    assert "exit 0" in done.run("python3 -m unittest"), "the tests fail"
    return done.run(f"python3 -c 'from pebble.names import *; print({call})'").removesuffix("exit 0").strip()


def a(done):
    assert given(done, 'slug("North   field 2")') == "north-field-2", "several spaces"


def b(done):
    assert given(done, 'short("Northfield", 6), short("North", 5)') == "North… North", "short"


def c(done):
    assert given(done, 'initials("van der Berg"), initials("North Field")') == "B NF", "initials"
