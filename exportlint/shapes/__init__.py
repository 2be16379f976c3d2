"""The dynamic-shape contract, guards and the hypothesis strategies drawn from them."""
