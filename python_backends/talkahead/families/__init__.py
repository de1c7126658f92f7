"""Kinds of checkpoints: what their text becomes, what their tokens mean, how they sound."""
