"""VACUUM: which files does no version that must stay readable need, and how are they deleted?"""
