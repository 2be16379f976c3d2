"""Rewrites that are applied: what a rule asks for (`edits`), the text that it comes to, and files that hold it."""
