"""Drafting ahead and verifying: token trees, drafters, verifiers, keyed draws. Pure tensors, no weights."""
