"""How is a table laid out anew without changing a row? OPTIMIZE: small files together, rows in a better order."""
