"""Lets the tests of this folder import what they share, and imports early what is slow to import."""

import sys
from importlib import import_module
from pathlib import Path

import_module("jsonschema")

sys.path.insert(0, str(Path(__file__).parent))
