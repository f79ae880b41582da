import subprocess
import sys

from kiln.curve import step
from kiln.glazes import DEGREES

if __name__ == "__main__":
    name = sys.argv[1]
    try:
        number = step(DEGREES[name])
    except subprocess.CalledProcessError:
        sys.exit("no plan")
    print("heat to", DEGREES[name])
    print(f"{name}: done at {DEGREES[name]}, step {number}")
