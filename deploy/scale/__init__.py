"""Many replicas, simulated from what one was measured to cost."""
