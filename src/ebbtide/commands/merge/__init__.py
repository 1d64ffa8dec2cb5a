"""How is a table merged with a source?"""
