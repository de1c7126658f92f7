"""What a GPU makes of a talker's steps."""
