"""The talker's pool and loop: admission, scheduling, decoding, windows and flow control."""
