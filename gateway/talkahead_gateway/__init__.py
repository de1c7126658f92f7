"""The front door: interfaces that voice agents already speak, over the client alone."""
