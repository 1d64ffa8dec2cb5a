"""How are the files of a table rewritten without changing a row? OPTIMIZE: fewer files, or rows in a better order."""
