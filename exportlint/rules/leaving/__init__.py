"""Rules 4xx: code that leaves the graph."""
