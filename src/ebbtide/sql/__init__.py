"""The SQL door: statement text becomes the same request as a Python call."""

from ebbtide.sql.door import sql

__all__ = ["sql"]
