"""The sets are read by the tests and by `benchmarks/screening.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
