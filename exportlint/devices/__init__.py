"""The second device that needs no hardware, real devices, and where devices come from."""
