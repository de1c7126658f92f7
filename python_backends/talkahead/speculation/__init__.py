"""Drafting ahead and verifying: token trees, drafters, verifiers and their keyed draws. Pure tensors, no weights."""
