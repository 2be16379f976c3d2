"""The linter under the settings of a project: what is linted, which rules are on, what is known already."""
