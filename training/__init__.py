"""Makes every shipped weight from nothing: corpus, codec, text encoder, talker and drafts."""
