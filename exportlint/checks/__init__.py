"""The run-time checks: model cases, worker processes, one module per check, and blame."""
