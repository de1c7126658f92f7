"""How drafts learn: a talker of any family speaks by itself, and drafts learn to say what it says."""
