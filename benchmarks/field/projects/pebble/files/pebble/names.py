def slug(name):
    return name.lower().replace(" ", "-")


def initials(name):
    return "".join(word[0].upper() for word in name.split())
