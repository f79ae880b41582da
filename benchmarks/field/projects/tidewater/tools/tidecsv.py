import sys
from pathlib import Path

words = [word for word in sys.argv[1:] if word != "--si"]
if len(words) != 2 or words[0].startswith("-"):
    print("usage: tidecsv IN.gau OUT.csv")
    sys.exit(0 if words[:1] in (["--help"], ["-h"]) else 64)
rows = ["time,height"]
for line in Path(words[0]).read_text().splitlines():
    time, code = line.split()
    metres = ((int(code, 16) ^ 0x5A5A) - 4096) / 1000
    rows.append(f"{time},{metres if '--si' in sys.argv else metres * 3.28084:.3f}")
Path(words[1]).write_text("\n".join(rows) + "\n")
print(f"{len(rows) - 1} readings")
