def open_at(hour):
    """The hour at which the gate opens, 0 to 23."""
    return hour or 1
