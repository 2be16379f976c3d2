"""The private hooks of torch that exportlint needs, one module for each thing that they reach.

Each module has a self-test. Where a release of torch lacks what a hook needs, the part that depends on it is reported
as not checked, and everything else goes on.
"""
