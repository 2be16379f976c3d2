"""Rules 9xx: TorchScript, the older way of capture."""
