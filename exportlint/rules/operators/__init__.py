"""Rules 8xx: custom operators."""
