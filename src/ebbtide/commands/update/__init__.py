"""How are rows updated?"""
