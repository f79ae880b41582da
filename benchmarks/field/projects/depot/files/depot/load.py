import csv
import subprocess
import sys
from pathlib import Path


def put(name, count):
    subprocess.run(["depotd", "put", name, count], check=True)


def main(path):
    for name, count in csv.reader(Path(path).read_text().splitlines()):
        put(name, count)


if __name__ == "__main__":
    main(sys.argv[1])
