"""Measurements: latency under load, the talker against transformers, perf_analyzer; all kept as JSON."""
