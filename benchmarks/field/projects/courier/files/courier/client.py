V1 = "https://carrier.example/v1"
V2 = "https://carrier.example/v2"


def track(number):
    return f"{V1}/parcels/{number}"


def parcels():
    return f"{V2}/parcels"
