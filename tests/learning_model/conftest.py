"""Lets the tests of this folder import the records they share."""

import sys
from pathlib import Path

import openai.resources.chat.completions  # noqa: F401 - its first import takes up to 4 s of a busy machine, a test has 5

sys.path.insert(0, str(Path(__file__).parent))
