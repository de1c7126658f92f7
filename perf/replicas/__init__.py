"""What listeners notice of what happens to one of two replicas behind a proxy."""
