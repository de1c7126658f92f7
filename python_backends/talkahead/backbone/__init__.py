"""The networks in front of the codec: text encoder and talker."""
