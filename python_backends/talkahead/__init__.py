"""Talkahead: streaming text-to-speech on NVIDIA Triton, with a talker that drafts ahead and verifies."""

__version__ = "0.1.0"
