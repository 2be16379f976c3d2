"""Rules 1xx: data-dependent control flow and sizes."""
