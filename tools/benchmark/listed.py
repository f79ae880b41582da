"""Lists as they are typed on a command line."""


def listed(value: object) -> object:
    """Take `a,b`, or one number, for a list; leave all else as it is."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int) else value
