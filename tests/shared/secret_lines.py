"""Lines with secrets, made at run time from a seed and the templates in `tests/guard/texts/secrets.toml`."""

import base64
import random
import re
import string
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

HEX = "0123456789abcdef"
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
WORD = string.ascii_letters + string.digits
_ALPHABETS = {
    "HEX": HEX,
    "HEXUP": "0123456789ABCDEF",
    "DIGITS": string.digits,
    "LOWER": LOWER,
    "UPPER": UPPER,
    "WORD": WORD,
    "URL": WORD + "-_",
    "SIGNS": WORD + "!@#%^*",
    "CRYPT": WORD + "./",
    "BASE32": string.ascii_uppercase + "234567",
    "BASE58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "BASE64": WORD + "+/",
    "BECH32": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
_PLACE = re.compile(r"<(\w+)(?: (\d+))?>")

Make = Callable[[random.Random], str]


def run(alphabet: str, length: int) -> Make:
    """Return a maker of random strings of an alphabet, each with a digit and a letter if the alphabet has them."""
    kinds = [[each for each in alphabet if each in kind] for kind in (string.digits, string.ascii_letters)]

    def make(random_: random.Random) -> str:
        letters = [random_.choice(alphabet) for _ in range(length)]
        for place, kind in enumerate(kinds):
            if kind:
                letters[1 + place] = random_.choice(kind)
        letters[0] = letters[-1] = random_.choice([each for each in alphabet if each.isalnum()])
        return "".join(letters)

    return make


def uuid(random_: random.Random) -> str:
    """Make a UUID."""
    return "-".join(run(HEX, length)(random_) for length in (8, 4, 4, 4, 12))


def _jwt(random_: random.Random) -> str:
    """Make a JSON web token whose header declares it as one."""
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(f'{{"sub":"{random_.randint(1, 10**9)}"}}'.encode()).decode().rstrip("=")
    return f"{header}.{body}.{run(_ALPHABETS['URL'], 43)(random_)}"


def after(template: str) -> Make:
    """Return a maker of strings from a template: its fixed text, with random values for its placeholders."""

    def made(place: re.Match[str], random_: random.Random) -> str:
        match place[1]:
            case "UUID":
                return uuid(random_)
            case "JWT":
                return _jwt(random_)
            case alphabet:
                return run(_ALPHABETS[alphabet], int(place[2]))(random_)

    return lambda random_: _PLACE.sub(lambda place: made(place, random_), template)


_TEMPLATES = tomllib.loads((Path(__file__).parents[1] / "guard" / "texts" / "secrets.toml").read_text("utf-8"))
VENDORS, _CONTEXTS, _RARE = (
    {kind: after(template) for kind, template in _TEMPLATES[section].items()}
    for section in ("vendors", "contexts", "rare")
)
_FRAMES = ("{}", "export X={}", "the value is '{}'.", '  "key": "{}",')


@cache
def vendor_lines(seed: int) -> tuple[tuple[str, str, str], ...]:
    """Return (kind, secret, line) for each vendor's format, in two different frames."""
    random_, lines = random.Random(seed), list[tuple[str, str, str]]()
    for number, (kind, make) in enumerate(VENDORS.items()):
        for frame in (_FRAMES[number % 4], _FRAMES[(number + 1) % 4]):
            secret = make(random_)
            lines.append((kind, secret, frame.format(secret)))
    return tuple(lines)


def rare_lines(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (name of the rule that should find it, line)."""
    random_ = random.Random(seed)
    for rule, make in _RARE.items():
        yield rule, make(random_)


def context_lines(seed: int, times: int) -> Iterator[tuple[str, str]]:
    """Yield (kind, line)."""
    random_ = random.Random(seed)
    for _ in range(times):
        for kind, make in _CONTEXTS.items():
            yield kind, make(random_)


def pem(random_: random.Random, lines: int = 12) -> str:
    """Make a PEM private key with a random body."""
    body = "\n".join(run(_ALPHABETS["BASE64"], 64)(random_) for _ in range(lines))
    name = "RSA PRIVATE" + " KEY"
    return f"-----BEGIN {name}-----\n{body}\n-----END {name}-----"
