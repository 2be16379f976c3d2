"""The pytest plugin of exportlint: model cases as tests."""
