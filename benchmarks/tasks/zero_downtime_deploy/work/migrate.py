"""Brings the data to what a version needs: `python migrate.py VERSION`."""

import sys

if __name__ == "__main__":
    sys.exit(1 if sys.argv[1].startswith("stuck") else 0)
