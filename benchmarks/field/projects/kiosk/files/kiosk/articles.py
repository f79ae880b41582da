import json
from pathlib import Path

for name in json.loads(Path("stock.json").read_text()):
    print(name)
