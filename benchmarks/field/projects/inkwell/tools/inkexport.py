import sys
from pathlib import Path

NAMES = {
    "authors": ["Ada Birch", "Émile Corde", "Finn Oake", "Gus Pell", "Jörg Amsel", "Lena Wick"],
    "illustrators": ["Ida Strand", "Noé Lamar", "Otto Reed", "Søren Dahl", "Una Holm"],
    "translators": ["Ben Rook", "Chloé Vann", "Dora Finch", "Íris Moor", "Kay Lund", "Pat Wren"],
}
words = [word for word in sys.argv[1:] if word != "--wide"]
if len(words) != 2 or words[0] not in NAMES:
    print("usage: inkexport authors|illustrators|translators OUT.csv")
    sys.exit(64)
names = [name for name in NAMES[words[0]] if "--wide" in sys.argv or name.isascii()]
Path(words[1]).write_text("\n".join(["name", *names]) + "\n")
print(f"exported {words[0]}")
