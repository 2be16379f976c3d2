"""Rules 6xx: inputs, outputs, containers and names."""
