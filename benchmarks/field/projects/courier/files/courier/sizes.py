def weight(grams):
    """Kilograms."""
    return grams / 1000
