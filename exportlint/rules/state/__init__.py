"""Rules 5xx: state and mutation."""
