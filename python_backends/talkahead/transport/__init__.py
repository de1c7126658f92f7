"""How the Python models of one server tell each other what their tensors do not: Unix datagrams."""
