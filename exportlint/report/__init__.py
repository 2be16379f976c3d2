"""One result model, one writer per format."""
