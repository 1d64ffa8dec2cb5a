"""What does a table need, why, and who does it? `ebbtide maintain`."""
