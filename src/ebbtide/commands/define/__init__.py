"""How are tables made, and how do their definitions change?"""
