"""RESTORE: the table shows an older version again."""
