"""Comparison of an exported program's results with the eager model's."""
