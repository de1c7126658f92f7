"""How long speech may take beside the teacher's."""

from __future__ import annotations

SHORTEST, LONGEST = 0.8, 1.25
"""Durations over the teacher's that count as right."""
