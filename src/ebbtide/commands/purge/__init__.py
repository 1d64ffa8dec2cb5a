"""How do deleted rows and dropped columns leave the live files? REORG ... APPLY (PURGE)."""
