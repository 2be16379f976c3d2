"""The check ``state``: what the program cannot remember, and what it remembers of the moment of its capture."""
