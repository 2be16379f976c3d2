"""The source analyzer: from files to findings, without running or importing what it reads."""
