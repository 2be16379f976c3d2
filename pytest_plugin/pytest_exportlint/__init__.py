"""The pytest plugin of exportlint."""
