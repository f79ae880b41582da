import unittest

from pebble.names import initials, slug


class Names(unittest.TestCase):
    def test_slug(self):
        assert slug("North field") == "north-field"

    def test_initials(self):
        assert initials("North field") == "NF"
