"""Rules 3xx: sizes and values frozen into the program."""
