def a(done):
    assert "\n2027-02-20,23:23,full\n2027-03-22,10:44,full\n" in done.read("data/moons.csv"), "data/moons.csv"
    assert "good data/moons.csv" in done.log("almcheck")[-1:], "the table was not checked"
    assert "5204" in done.answer, "what the check says is not in the answer"


def b(done):
    assert "\n2027-03-09,5.4,spring\n2027-04-08,5.9,spring\n" in done.read("data/tides.csv"), "data/tides.csv"
    assert "good data/tides.csv" in done.log("almcheck")[-1:], "the table was not checked"
    assert "3903" in done.answer, "what the check says is not in the answer"


def c(done):
    assert "February" in done.read("README.md"), "README.md"
    assert "Febuary" not in done.read("README.md"), "README.md"
