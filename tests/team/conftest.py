"""A team whose server and homes are banks in real files, or the server's in a real PostgreSQL."""

from postgres_server import database_url, engine
from team_banks import home, server

__all__ = ["database_url", "engine", "home", "server"]
