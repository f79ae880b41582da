"""Lets the tests of this folder import the records they share."""

import sys
from importlib import import_module
from pathlib import Path

# Its first import can take 4 s on a busy machine, and a test has 5.
import_module("openai.resources.chat.completions")

sys.path.insert(0, str(Path(__file__).parent))
