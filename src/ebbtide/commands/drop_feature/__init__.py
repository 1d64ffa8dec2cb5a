"""How does a table lose a feature? ALTER TABLE ... DROP FEATURE."""
