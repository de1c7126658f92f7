"""What drafting ahead brings: every method of the seeds against plain decoding of the same loop."""
