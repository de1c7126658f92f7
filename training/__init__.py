"""Makes every shipped weight from nothing: sentences, teacher's audio, codec, text encoder and talker."""
