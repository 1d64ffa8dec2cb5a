"""What can a user do with a Delta table from a terminal? `ebbtide --help` lists it."""

from ebbtide.cli.app import app, main

__all__ = ["app", "main"]
