import unittest

from courier.client import track


class Client(unittest.TestCase):
    def test_track(self):
        assert track("77") == "https://carrier.example/v1/parcels/77"
