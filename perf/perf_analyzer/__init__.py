"""NVIDIA's own load generator, its input and what it finds."""
