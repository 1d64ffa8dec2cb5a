"""What do all commands that change rows have in common?"""
