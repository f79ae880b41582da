DEGREES = {
    "bowl": 1245,
    "tile": 1130,
    "vase": 1060,
}
