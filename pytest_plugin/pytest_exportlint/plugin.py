"""The pytest plugin: options, fixtures and hooks. Starting it imports neither torch nor libcst nor hypothesis."""
