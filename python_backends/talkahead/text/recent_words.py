"""Words younger than the lexicon's sources, which letter to sound gets wrong."""

from __future__ import annotations

RECENT_WORDS: dict[str, str] = {
    "acai": "AA2 S AY0 IY1", "airbnb": "EH1 R B IY2 AH0 N B IY2", "airpods": "EH1 R P AA2 D Z",
    "api": "EY2 P IY2 AY1", "async": "EY1 S IH2 NG K", "atorvastatin": "AH0 T AO2 R V AH0 S T AE1 T IH0 N",
    "chatbot": "CH AE1 T B AA2 T", "chatbots": "CH AE1 T B AA2 T S", "chatgpt": "CH AE2 T JH IY2 P IY2 T IY1",
    "doordash": "D AO1 R D AE2 SH", "edamame": "EH2 D AH0 M AA1 M EY0", "emoji": "IH0 M OW1 JH IY0",
    "emojis": "IH0 M OW1 JH IY0 Z", "ethereum": "IH0 TH IH1 R IY0 AH0 M", "frontend": "F R AH1 N T EH2 N D",
    "gif": "G IH1 F", "gifs": "G IH1 F S", "hvac": "EY1 CH V AE2 K",
    "jpeg": "JH EY1 P EH0 G", "jpegs": "JH EY1 P EH0 G Z", "json": "JH EY1 S AH0 N",
    "kanban": "K AA1 N B AA2 N", "kombucha": "K AH0 M B UW1 CH AH0",
    "kubernetes": "K UW2 B ER0 N EH1 T IY0 Z", "lisinopril": "L AH0 S IH1 N AH0 P R IH0 L",
    "livestream": "L AY1 V S T R IY2 M", "macos": "M AE2 K OW2 EH1 S", "metformin": "M EH2 T F AO1 R M IH0 N",
    "nft": "EH2 N EH2 F T IY1", "omeprazole": "OW0 M EH1 P R AH0 Z OW2 L", "openai": "OW2 P AH0 N EY2 AY1",
    "pickleball": "P IH1 K AH0 L B AO2 L", "ransomware": "R AE1 N S AH0 M W EH2 R",
    "readme": "R IY1 D M IY2", "regex": "R EH1 JH EH2 K S", "scrum": "S K R AH1 M",
    "signup": "S AY1 N AH2 P", "sql": "S IY1 K W AH0 L", "sriracha": "S IH0 R AA1 CH AH0",
    "suv": "EH2 S Y UW2 V IY1", "telehealth": "T EH1 L AH0 HH EH2 L TH", "tiktok": "T IH1 K T AA2 K",
    "touchscreen": "T AH1 CH S K R IY2 N", "typescript": "T AY1 P S K R IH2 P T",
    "usb": "Y UW2 EH2 S B IY1", "vlog": "V L AO1 G", "walgreens": "W AO1 L G R IY2 N Z",
    "yaml": "Y AE1 M AH0 L",
}  # fmt: skip
