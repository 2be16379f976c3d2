"""Rules 7xx: saving and loading."""
