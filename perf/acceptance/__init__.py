"""Whether a downloaded checkpoint is served as it should be: what those find who have the downloads."""
