def a(done):
    assert "sent north out/week12.csv 3" in done.log("dropctl"), "nothing was sent"


def b(done):
    assert "sent east out/week13.csv 4" in done.log("dropctl"), "nothing was sent"


def c(done):
    assert done.read("out/week14.csv").split() == ["item,count", "rope,12", "tar,4", "oil,18", "nets,2"], "week14"
    assert "sent north out/week14.csv 4" in done.log("dropctl"), "nothing was sent"
