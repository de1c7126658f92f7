"""What these tests let the server speak."""

from __future__ import annotations

import itertools

SENTENCES = (
    "The juice of lemons makes fine punch.",
    "Your table is booked for seven this evening.",
    "The train to the coast leaves from platform four.",
    "Would you like me to read the message again?",
    "Turn left at the next corner, then keep going until you see the bridge.",
    "Your parcel arrived this morning, and a neighbour signed for it.",
    "The doctor can see you on Tuesday afternoon, or early on Friday.",
    "It will stay dry until noon, with light rain moving in from the west after that.",
    "Please hold the line while I look for your account.",
    "There are three open invoices, and the oldest is from last spring.",
    "The museum is closed on Mondays, but the garden stays open all week.",
    "I have moved your meeting to half past ten and told everybody about it.",
    "Bread, butter, two lemons and a bottle of milk are on your list.",
    "The second song was written by the same composer, shortly before he left the city.",
    "Remember to lock the back door before you go to bed.",
    "A warm wind blew across the harbour as the last boats came home.",
)
"""Short, of one segment each, and different."""


def prose(characters: int) -> str:
    """The sentences over and over, up to a length; the last is cut off and closed."""
    text = ""
    for sentence in itertools.cycle(SENTENCES):
        if len(text) >= characters:
            break
        text += sentence + " "
    cut = text[: characters - 1].rstrip()
    return cut + "." * (characters - len(cut))
