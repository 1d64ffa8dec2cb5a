"""FSCK: is what the log says still true of the files in storage, and what can be repaired?"""
