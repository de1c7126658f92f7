"""Engines of each model's network side by side: alone, and in the whole server."""
