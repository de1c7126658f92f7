"""The talker's engine beside others that run the same weights."""
