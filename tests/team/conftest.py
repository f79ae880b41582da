"""A team whose server and homes are banks in real files."""

from team_banks import home, server

__all__ = ["home", "server"]
