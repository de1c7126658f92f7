"""What was measured, as one page with tables and pictures."""
