import unittest

from kiln.curve import soak


class Soak(unittest.TestCase):
    def test_turns(self):
        assert soak(90, 2) == 45
