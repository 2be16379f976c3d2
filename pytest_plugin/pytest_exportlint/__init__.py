"""The pytest plugin of exportlint: model cases as tests."""

from __future__ import annotations

from pytest_exportlint.suite import ExportSuite

__all__ = ["ExportSuite"]
