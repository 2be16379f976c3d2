"""Rules 2xx: devices, dtypes, autocast."""
