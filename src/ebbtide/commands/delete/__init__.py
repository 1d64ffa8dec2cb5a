"""How are rows deleted?"""
