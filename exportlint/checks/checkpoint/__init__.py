"""The check ``checkpoint``: is what decides a model's results in its state dict, and does that load elsewhere?

1. The state dict of one model of the factory is saved, loaded with ``weights_only=True`` and given strictly to another,
   which was made with other random numbers. Both must return the same (`roundtrip`); where they do not, `outside` looks
   for what the state dict lacks. Where keys do not fit, `keys` says what would mend it.
2. A training loop of a few steps is saved in the middle with all that it needs, and gone on with in another model: the
   next steps must be the same (`resume`).

The tensors are saved as a machine with a GPU saves them, so that a load must put them elsewhere (`files`).
"""
