"""From codec frames to PCM, and the windows in which it happens."""
