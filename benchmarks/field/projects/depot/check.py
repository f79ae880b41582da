def a(done):
    assert "117" in done.answer, "the sum is not in the answer"
    assert "117" in done.run("depotd sum"), "the depot has not all counts"


def b(done):
    assert "59" in done.answer, "the sum is not in the answer"
    assert "59" in done.run("depotd sum"), "the depot has not all returns"


def c(done):
    assert done.run("depotd get lamps").startswith("0\n"), "the lamps are not cleared"
    done.run("python3 -m depot.clear stools")
    assert done.run("depotd get stools").startswith("0\n"), "depot.clear does not clear"
