import re


def letter(done, name):
    text = done.read(f"letters/{name}.txt").strip()
    assert text.startswith("Dear $NAME"), f"letters/{name}.txt"
    assert not re.search(r"\b(customer|client)", text, re.IGNORECASE), "they are not called guests"
    assert text.splitlines()[-1].strip(" .,!") == "Until soon", "the last line"
    return text


def a(done):
    assert "NMAE" not in done.read("letters/welcome.txt"), "letters/welcome.txt"
    assert done.read("letters/welcome.txt").count("$NAME") == 2, "letters/welcome.txt"


def b(done):
    letter(done, "late")


def c(done):
    assert "9 May" in letter(done, "closed"), "the days"
