"""Rules 0xx: the run itself, where no more specific rule fits."""
