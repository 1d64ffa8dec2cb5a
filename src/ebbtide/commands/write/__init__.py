"""How are rows added, and how is a table overwritten?"""
