"""What is written against what is spoken."""

from __future__ import annotations

import pytest
from talkahead.text import TextFrontend

SPOKEN = {
    # cardinals and decimals
    "I have 3 cats": "i have three cats",
    "42": "forty two",
    "100": "one hundred",
    "1,234,567": "one million two hundred thirty four thousand five hundred sixty seven",
    "10000": "ten thousand",
    "0": "zero",
    "007": "zero zero seven",
    "3.14": "three point one four",
    "1.50": "one point five zero",
    ".5": "point five",
    "0.001": "zero point zero zero one",
    "-7 degrees": "minus seven degrees",
    "1e10": "one times ten to the ten",
    "6.02e23": "six point zero two times ten to the twenty three",
    # ordinals, years, decades
    "the 1st, 2nd and 23rd": "the first, second and twenty third",
    "1,000th": "one thousandth",
    "in 1999": "in nineteen ninety nine",
    "in 1905": "in nineteen oh five",
    "in 2001": "in two thousand one",
    "in 2024": "in twenty twenty four",
    "the 1990s": "the nineteen nineties",
    "the '80s": "the eighties",
    "the 60s": "the sixties",
    "1990-1995": "nineteen ninety to nineteen ninety five",
    # fractions and ranges
    "1/2 cup": "one half cup",
    "3/4 inch": "three quarters inch",
    "2/3": "two thirds",
    "1 1/2": "one and a half",
    "2½ hours": "two and a half hours",
    "12/25": "twelve over twenty five",
    "3-4 people": "three to four people",
    "10–20%": "ten to twenty percent",
    "pp. 12-15": "pages twelve to fifteen",
    # money
    "$1": "one dollar",
    "$5.50": "five dollars and fifty cents",
    "$1,234.56": "one thousand two hundred thirty four dollars and fifty six cents",
    "$0.99": "ninety nine cents",
    "$1.01": "one dollar and one cent",
    "-$5": "minus five dollars",
    "$5-10": "five to ten dollars",
    "$3M": "three million dollars",
    "€3.5 million": "three point five million euros",
    "£9.99": "nine pounds and ninety nine pence",
    "¥1000": "one thousand yen",
    "50¢": "fifty cents",
    "20 USD": "twenty u s dollars",
    "$20/month": "twenty dollars per month",
    # dates
    "12/25/2024": "december twenty fifth twenty twenty four",
    "25.12.2024": "december twenty fifth twenty twenty four",
    "2024-12-25": "december twenty fifth twenty twenty four",
    "3/4/21": "march fourth twenty twenty one",
    "Dec. 25, 2024": "december twenty fifth, twenty twenty four",
    "March 3rd": "march third",
    "May 5": "may fifth",
    "may 5 people come?": "may five people come?",
    "25 December 2024": "the twenty fifth of december twenty twenty four",
    "the 4th of July": "the fourth of july",
    "Feb 2020": "february twenty twenty",
    "Tues. and Thurs.": "tuesday and thursday",
    # times
    "5:30 p.m.": "five thirty p m",
    "10:05 AM": "ten oh five ay m",
    "5pm": "five p m",
    "7.30pm": "seven thirty p m",
    "17:45": "seventeen forty five",
    "5:00": "five o'clock",
    "17:00": "seventeen hundred",
    "9am-5pm": "nine ay m to five p m",
    "23:59:59": "twenty three fifty nine and fifty nine seconds",
    "16:9": "sixteen to nine",
    # units
    "5 km": "five kilometers",
    "1 kg": "one kilogram",
    "3.5 cm": "three point five centimeters",
    "60 mph": "sixty miles per hour",
    "100 km/h": "one hundred kilometers per hour",
    "5 mg/kg": "five milligrams per kilogram",
    "a 5-km run": "a five kilometer run",
    "-5°C": "minus five degrees celsius",
    "98.6°F": "ninety eight point six degrees fahrenheit",
    "50%": "fifty percent",
    "2.4GHz": "two point four gigahertz",
    "16GB": "sixteen gigabytes",
    "30 m²": "thirty square meters",
    "6'2\"": "six foot two",
    "10 in. wide": "ten inches wide",
    "1920x1080": "nineteen twenty by one thousand eighty",
    "1/4 tsp salt": "one quarter teaspoon salt",
    'He said "give me 5" and left': "he said give me five and left",
    'a 12" pipe': "a twelve inch pipe",
    # abbreviations and initials
    "Dr. Smith": "doctor smith",
    "Mr. and Mrs. Jones": "mister and missus jones",
    "St. Paul St.": "saint paul street",
    "221B Baker St.": "two twenty one b baker street",
    "No. 5": "number five",
    "J. R. R. Tolkien": "j r r tolkien",
    "e.g. this, i.e. that, etc.": "for example this, that is that, et cetera",
    "cats vs. dogs": "cats versus dogs",
    "Ph.D.": "p h d",
    "Henry VIII": "henry the eighth",
    "World War II": "world war two",
    "Act I, Scene 2": "act one, scene two",
    # acronyms and names with digits
    "the FBI": "the f b i",
    "NASA": "nasa",
    "the U.S.A.": "the u s ay",
    "CDs": "c d's",
    "IBM's": "i b m's",
    "AT&T": "ay t and t",
    "H2O": "h two o",
    "COVID-19": "covid nineteen",
    "A380": "ay three eighty",
    "MP3": "m p three",
    "F-16": "f sixteen",
    "OpenAI": "openai",
    "GitHub and ChatGPT": "github and chatgpt",
    "DO NOT ENTER": "do not enter",
    # telephone numbers and other digits
    "555-123-4567": "five five five, one two three, four five six seven",
    "(212) 555-0123": "two one two, five five five, zero one two three",
    "+44 20 7946 0958": "plus four four, two zero, seven nine four six, zero nine five eight",
    "911": "nine one one",
    "192.168.0.1": "one nine two dot one six eight dot zero dot one",
    "v2.0.1": "v two point zero point one",
    "1234567890123456": "one two three four, five six seven eight, nine zero one two, three four five six",
    "Your code is 4521, I repeat, 4521": "your code is four five two one, i repeat, four five two one",
    "the card ending in 4242": "the card ending in four two four two",
    "Flight 302 to Room 305": "flight three oh two to room three oh five",
    "I-280 N, then US-101": "i two eighty north, then u s one oh one",
    # addresses
    "1600 Pennsylvania Ave NW, Washington, DC 20500": (
        "sixteen hundred pennsylvania avenue northwest, washington, d c two zero five zero zero"
    ),
    "www.example.com/path?x=1": "w w w dot example dot com slash path question mark x equals one",
    "https://openai.com": "openai dot com",
    "john.doe@example.co.uk": "john dot doe at example dot c o dot u k",
    "open notes.txt": "open notes dot t x t",
    "#1 and #winning": "number one and hashtag winning",
    "@home": "at home",
    "the temp. on Tue. at noon": "the temperature on tuesday at noon",
    "thx, btw": "thanks, by the way",
    # signs
    "R&D and C++": "r and d and c plus plus",
    "24/7": "twenty four seven",
    "2+2=4": "two plus two equals four",
    "3 × 4": "three by four",
    "10 - 4": "ten minus four",
    # words
    "don’t “quote” it’s": "don't quote it's",
    "well-known": "well known",
    "rock 'n' roll": "rock and roll",
    "café naïve Łódź straße": "cafe naive lodz strasse",
    "ﬁne Ｆｕｌｌ １２３": "fine full one hundred twenty three",
    "hi 😀 there": "hi there",
    "hello_world": "hello world",
    "vitamin A": "vitamin ay",
    "an A in math": "an ay in math",
    "She (the boss) left": "she, the boss, left",
    "She left (late)": "she left, late",
    "great—really": "great, really",
    "wait... what?": "wait, what?",
    "no?!": "no?",
}

SENTENCES = {
    "It ends at 3 p.m. It was long.": ["it ends at three p m.", "it was long."],
    "It ends at 3 p.m. sharp.": ["it ends at three p m sharp."],
    "He lives in the U.S. He likes it.": ["he lives in the u s.", "he likes it."],
    "the U.S. economy": ["the u s economy."],
    "So am I. He did.": ["so am i.", "he did."],
    "etc. The next": ["et cetera.", "the next."],
    "No. I said no.": ["no.", "i said no."],
    "Baker St. The end": ["baker street.", "the end."],
    "Well... OK!!! Really?!": ["well.", "ok!", "really?"],
    '"How are you?" he asked.': ["how are you?", "he asked."],
    "A title\n\nThe text": ["a title.", "the text."],
    "- one\n- two": ["one.", "two."],
    "wrapped\nlines": ["wrapped lines."],
    "1. First\n2. Second": ["one, first.", "two, second."],
    "# A title\nThe text\n## More": ["a title.", "the text.", "more."],
    "| Name | Age |\n|---|---|\n| Ann | 9 |": ["name, age.", "ann, nine."],
    "> quoted\n> text": ["quoted text."],
}


@pytest.mark.parametrize(("written", "spoken"), SPOKEN.items())
def test_written_forms_are_read_as_people_say_them(frontend: TextFrontend, written: str, spoken: str) -> None:
    [segment] = frontend.segments(written)
    assert segment.words.rstrip(".") == spoken


@pytest.mark.parametrize(("written", "spoken"), SENTENCES.items())
def test_full_stops_end_sentences_only_where_people_stop(
    frontend: TextFrontend, written: str, spoken: list[str]
) -> None:
    assert [segment.words for segment in frontend.segments(written)] == spoken


def test_words_are_listed_without_pauses(frontend: TextFrontend) -> None:
    assert frontend.words("Well, it costs $5.") == ["well", "it", "costs", "five", "dollars"]
