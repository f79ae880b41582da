import subprocess


def soak(minutes, turns):
    """Minutes of each of the turns of a soak."""
    return round(minutes / turns)


def step(degrees):
    """The controller's step for a temperature."""
    return int(subprocess.run(["kilntab", "look", str(degrees)], check=True, stdout=subprocess.PIPE, text=True).stdout)
