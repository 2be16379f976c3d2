"""The version, alone in its file so that building a wheel imports nothing else."""

__version__ = "0.1.0"
