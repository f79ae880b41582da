"""Checks `extract.py` in the folder that it is given, against a shop with products of its own."""

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

LIMIT_S = 20
HERE = Path(__file__).resolve().parent


def shop_module() -> Any:
    """Return the shop as it was shipped, whatever became of the copy."""
    spec = importlib.util.spec_from_file_location("shop", HERE / "work" / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def extract(folder: Path, url: str, out: Path) -> int:
    """Run what was written, and return its exit code."""
    command = [sys.executable, str(folder / "extract.py"), url, str(out)]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=LIMIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"extract.py did not end within {LIMIT_S} s")


def main() -> None:
    """End with 0 when all of it works."""
    folder, module = Path(sys.argv[1]), shop_module()
    if not (folder / "extract.py").is_file():
        sys.exit("there is no extract.py")
    for seed, count in ((11, 1), (12, 44)):
        stock = module.products(seed, count)
        expected = [{"sku": sku, "name": name, "price_cents": cents} for sku, name, cents in sorted(stock)]
        with tempfile.TemporaryDirectory() as scratch, module.Shop(0, stock) as shop:
            threading.Thread(target=shop.serve_forever, daemon=True).start()
            out = Path(scratch, "out.json")
            code = extract(folder, shop.url, out)
            shop.shutdown()
            if code != 0 or not out.is_file():
                sys.exit(f"with {count} products it ended with code {code} and {'a' if out.is_file() else 'no'} file")
            compare(json.loads(out.read_text(encoding="utf-8")), expected)
            if shop.requests > 6 * shop.pages + 6:
                sys.exit(f"{shop.requests} requests were made for {shop.pages} pages")
    check_broken(folder, module)


def compare(found: list[dict[str, object]], expected: list[dict[str, object]]) -> None:
    """End unless the products are those of the shop."""
    if found != expected:
        wrong = next((pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]), ("…", "…"))
        sys.exit(f"{len(found)} products instead of {len(expected)}, or not as they are; the first: {wrong}")


def check_broken(folder: Path, module: Any) -> None:
    """A part that never comes must not be left out in silence."""
    with tempfile.TemporaryDirectory() as scratch, module.Shop(0, module.products(13, 14), broken=True) as shop:
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        out = Path(scratch, "out.json")
        code = extract(folder, shop.url, out)
        shop.shutdown()
        if code == 0 or out.exists():
            sys.exit(f"a part never came, and it ended with code {code} and {'a' if out.exists() else 'no'} file")


if __name__ == "__main__":
    main()
