"""Imports early what is slow to import."""

from importlib import import_module

import_module("jsonschema")
