"""What public talkers cost at their true shapes, on random weights."""
