"""The drafters that are trained on a talker: what they look ahead with, and how they are loaded."""
