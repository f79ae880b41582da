def given(done, call):
    assert "exit 0" in done.run("python3 -m unittest"), "the tests fail"
    code = f"from courier.client import *; from courier.sizes import *; print({call})"
    return done.run(f"python3 -c '{code}'").removesuffix("exit 0").strip()


def a(done):
    assert given(done, 'track("12 34")') == "https://carrier.example/v1/parcels/1234", "track"


def b(done):
    assert "/v2/" not in given(done, 'label("1234")'), "it was moved to v2"
    assert given(done, 'label("1234")') == "https://carrier.example/v1/labels/1234", "label"


def c(done):
    assert given(done, "weight(1249)") == "1.2", "weight"
