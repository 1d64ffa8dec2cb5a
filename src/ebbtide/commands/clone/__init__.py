"""CLONE: a new table that shows the files of another one."""
