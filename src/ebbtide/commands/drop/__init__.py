"""How does a table go, files and all? DROP TABLE."""
