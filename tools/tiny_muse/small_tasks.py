# ruff: noqa: E501 -- one sentence a line reads better than sentences cut in two
"""Short questions with checkable answers: sums, days, colours, lists, words, facts."""

from __future__ import annotations

from random import Random

from .stories import COLOURS, NAMES, Task

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WORDS = (
    "apple", "river", "stone", "cloud", "bread", "chair", "horse", "tiger", "lemon", "paper",
    "house", "train", "money", "plant", "sugar", "light", "mouse", "green", "ocean", "table",
    "water", "zebra", "violin", "window", "yellow", "kettle", "island", "orange", "pencil", "garden",
)  # fmt: skip
_MIXES = {
    ("blue", "yellow"): "green", ("red", "yellow"): "orange", ("red", "blue"): "purple",
    ("red", "white"): "pink", ("black", "white"): "grey", ("blue", "white"): "light blue",
}  # fmt: skip
_THINGS = {
    "grass": "green", "the sky on a clear day": "blue", "a ripe banana": "yellow", "snow": "white",
    "coal": "black", "a ripe tomato": "red", "chocolate": "brown", "an orange": "orange",
    "a lemon": "yellow", "milk": "white", "a frog": "green", "a strawberry": "red",
}  # fmt: skip
_FACTS = {
    "How many legs does a spider have?": ("A spider has eight legs.", "Insects have six legs, but a spider is not an insect."),
    "How many legs does a dog have?": ("A dog has four legs.", "A dog is a mammal that walks on all fours."),
    "How many days are there in a week?": ("There are seven days in a week.", "They go from Monday to Sunday."),
    "How many months are there in a year?": ("There are twelve months in a year.", "The last one is December."),
    "How many minutes are there in an hour?": ("There are sixty minutes in an hour.", "Each minute has sixty seconds."),
    "What is the capital of France?": ("The capital of France is Paris.", "Paris lies on the river Seine."),
    "What is the capital of Italy?": ("The capital of Italy is Rome.", "Rome is more than two thousand years old."),
    "What is the capital of Japan?": ("The capital of Japan is Tokyo.", "Tokyo is a very large city."),
    "What is the capital of Spain?": ("The capital of Spain is Madrid.", "Madrid lies in the middle of the country."),
    "What is the capital of Norway?": ("The capital of Norway is Oslo.", "Oslo lies by the sea."),
    "Which animal says moo?": ("A cow says moo.", "Cows live on farms and give milk."),
    "Which animal says meow?": ("A cat says meow.", "Cats like to catch mice."),
    "What is frozen water called?": ("Frozen water is called ice.", "Water freezes at zero degrees."),
    "What do bees make?": ("Bees make honey.", "They use the sweet juice of flowers."),
    "Which planet do we live on?": ("We live on the planet Earth.", "It is the third planet from the sun."),
    "Which season comes after winter?": ("Spring comes after winter.", "Then the days get longer."),
    "What language is CPython written in?": ("CPython is mostly written in C.", "Its standard library is mostly written in Python."),
}  # fmt: skip
_OPPOSITES = {
    "hot": "cold", "big": "small", "fast": "slow", "old": "young", "happy": "sad", "open": "closed",
    "light": "dark", "full": "empty", "early": "late", "loud": "quiet", "hard": "soft", "dry": "wet",
    "high": "low", "long": "short", "strong": "weak", "rich": "poor", "clean": "dirty", "first": "last",
}  # fmt: skip
_GOODS = (
    "apples",
    "coins",
    "books",
    "eggs",
    "pencils",
    "cards",
    "stamps",
    "shells",
    "buttons",
    "tickets",
)


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def arithmetic(rng: Random) -> Task:
    kind = rng.choice(("+", "-", "*", "story+", "story-"))
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    if kind == "*":
        a, b = rng.randint(2, 12), rng.randint(2, 12)
    if kind in ("-", "story-") and a < b:
        a, b = b, a
    result = a * b if kind == "*" else a + b if kind.endswith("+") else a - b
    sign = kind[-1]
    if kind.startswith("story"):
        name, goods = rng.choice(NAMES), rng.choice(_GOODS)
        if sign == "+":
            question = rng.choice(
                (
                    f"{name} has {a} {goods} and gets {b} more. How many {goods} does {name} have now?",
                    f"There are {a} {goods} in one box and {b} {goods} in another. How many are there in all?",
                )
            )
        else:
            question = rng.choice(
                (
                    f"{name} has {a} {goods} and gives away {b}. How many {goods} are left?",
                    f"Out of {a} {goods}, {name} sold {b}. How many does {name} still have?",
                )
            )
        answer = rng.choice(
            (
                f"{a} {sign} {b} = {result}, so the answer is {result} {goods}.",
                f"The answer is {result} {goods}.",
            )
        )
    else:
        question = rng.choice(
            (
                f"What is {a} {sign} {b}?",
                f"Calculate {a} {sign} {b}.",
                f"How much is {a} {sign} {b}?",
                f"Please work out {a} {sign} {b}.",
            )
        )
        answer = rng.choice(
            (
                f"{a} {sign} {b} = {result}.",
                f"The result is {result}.",
                f"{a} {sign} {b} is {result}.",
            )
        )
    if kind == "*":
        detail = [f"{a} * {b} means {b} added {a} times.", f"{a} * {b} = {result}."]
    elif sign == "+":
        ones, tens = a % 10 + b % 10, a // 10 + b // 10
        detail = [
            f"Ones: {a % 10} + {b % 10} = {ones}.",
            f"Tens: {a // 10} + {b // 10} = {tens}.",
            f"{tens * 10} + {ones} = {result}.",
        ]
    else:
        detail = [
            f"{a} - {b // 10 * 10} = {a - b // 10 * 10}.",
            f"{a - b // 10 * 10} - {b % 10} = {result}.",
        ]
    check = (
        f"Check: {result} - {b} = {a}."
        if sign == "+"
        else f"Check: {result} + {b} = {a}."
        if sign == "-"
        else f"Check: {result} / {b} = {a}."
    )
    thoughts = [
        f"I need {a} {sign} {b}, which is {result}.",
        *detail,
        check,
        "The answer can be short.",
    ]
    return Task("arithmetic", question, thoughts, answer)


def calendar(rng: Random) -> Task:
    names = rng.choice((_DAYS, _MONTHS))
    unit = "day" if names is _DAYS else "month"
    start, step = rng.randrange(len(names)), rng.randint(1, 6)
    direction = rng.choice((1, -1))
    end = names[(start + direction * step) % len(names)]
    word = "after" if direction == 1 else "before"
    plural = "s" if step > 1 else ""
    path = [names[(start + direction * i) % len(names)] for i in range(1, step + 1)]
    question = rng.choice(
        (
            f"Which {unit} comes {step} {unit}{plural} {word} {names[start]}?",
            f"What {unit} is it {step} {unit}{plural} {word} {names[start]}?",
        )
    )
    thoughts = [
        f"From {names[start]} I count {step} {unit}{plural} {'forward' if direction == 1 else 'back'}.",
        f"The path is {', '.join(path)}.",
        f"So I end at {end}.",
        f"The {unit}s repeat after {names[-1]}.",
    ]
    return Task(
        "calendar",
        question,
        thoughts,
        rng.choice((f"It is {end}.", f"{step} {unit}{plural} {word} {names[start]} comes {end}.")),
    )


def colour(rng: Random) -> Task:
    if rng.random() < 0.5:
        (one, two), result = rng.choice(list(_MIXES.items()))
        if rng.random() < 0.5:
            one, two = two, one
        question = rng.choice(
            (
                f"What colour do you get when you mix {one} and {two}?",
                f"I mix {one} paint with {two} paint. Which colour is it?",
            )
        )
        answer = f"{one.capitalize()} and {two} give {result}."
        thoughts = [
            f"The user mixes {one} and {two}.",
            f"That gives {result}.",
            "It works the same with paint and with pencils.",
        ]
    else:
        thing, result = rng.choice(list(_THINGS.items()))
        question = rng.choice((f"What colour is {thing}?", f"Which colour does {thing} have?"))
        answer = f"{thing[0].upper()}{thing[1:]} is {result}."
        thoughts = [
            f"The user asks for the colour of {thing}.",
            f"It is {result}.",
            "This is a plain fact, no sum is needed.",
        ]
    return Task("colour", question, thoughts, answer)


def listing(rng: Random) -> Task:
    words = rng.sample(_WORDS, rng.randint(3, 6))
    kind = rng.choice(("sort", "reverse", "longest", "count", "capital", "first"))
    text = ", ".join(words)
    if kind == "sort":
        result = ", ".join(sorted(words))
        question = rng.choice(
            (f"Sort these words: {text}.", f"Put these words in alphabetical order: {text}.")
        )
        answer, thought = (
            f"In order: {result}.",
            f"The smallest word is {min(words)} and the last is {max(words)}.",
        )
    elif kind == "reverse":
        result = ", ".join(reversed(words))
        question, answer = f"Reverse this list: {text}.", f"Reversed: {result}."
        thought = f"I start with {words[-1]} and end with {words[0]}."
    elif kind == "longest":
        best = max(words, key=len)
        question = f"Which of these words is the longest: {text}?"
        answer, thought = (
            f"The longest word is {best}, with {len(best)} letters.",
            f"The word {best} has {len(best)} letters.",
        )
    elif kind == "count":
        question = f"How many words are in this list: {text}?"
        answer, thought = (
            f"There are {len(words)} words in the list.",
            f"I count them: {_and([str(i) for i in range(1, len(words) + 1)])}.",
        )
    elif kind == "capital":
        question, answer = (
            f"Write these words in capital letters: {text}.",
            ", ".join(word.upper() for word in words) + ".",
        )
        thought = (
            f"Every letter becomes a capital letter, so {words[0]} becomes {words[0].upper()}."
        )
    else:
        question = f"What are the first and the last word of this list: {text}?"
        answer, thought = (
            f"The first word is {words[0]} and the last word is {words[-1]}.",
            f"The list has {len(words)} words.",
        )
    thoughts = [
        f"The list has {len(words)} words and the task is clear.",
        thought,
        f"The list is {text}.",
        "I keep the words as they are.",
        "The answer fits on one line.",
    ]
    return Task("list", question, thoughts, answer)


def fact(rng: Random) -> Task:
    if rng.random() < 0.4:
        word, other = rng.choice(list(_OPPOSITES.items()))
        if rng.random() < 0.5:
            word, other = other, word
        question = rng.choice(
            (f"What is the opposite of {word}?", f"Which word means the opposite of {word}?")
        )
        return Task(
            "fact",
            question,
            [
                f"The opposite of {word} is {other}.",
                "One word is enough.",
                "I write a full sentence anyway.",
            ],
            f"The opposite of {word} is {other}.",
        )
    question, (answer, more) = rng.choice(list(_FACTS.items()))
    full = answer if rng.random() < 0.5 else f"{answer} {more}"
    return Task(
        "fact",
        question,
        [f"I know this: {answer}", more, "A short answer is best.", "I am sure about it."],
        full,
    )


def paragraph(rng: Random) -> Task:
    """A description that lists several properties: middle-sized free text."""
    name, friend = rng.sample(NAMES, 2)
    colours = rng.sample(COLOURS, 3)
    words = rng.sample(_WORDS, 3)
    month, day = rng.choice(_MONTHS), rng.choice(_DAYS)
    age = rng.randint(7, 60)
    question = rng.choice(
        (
            f"Describe a person called {name} who is {age} years old.",
            f"Write a few sentences about {name}, who is {age} and was born in {month}.",
            f"Introduce {name} to my friends. {name} is {age} years old.",
        )
    )
    lines = [
        f"{name} is {age} years old and was born in {month}.",
        rng.choice(
            (
                f"{name} likes the colours {colours[0]} and {colours[1]}.",
                f"The favourite colour of {name} is {colours[0]}.",
            )
        ),
        rng.choice(
            (
                f"Every {day}, {name} meets {friend} in the park.",
                f"On {day} evenings, {name} plays cards with {friend}.",
            )
        ),
        rng.choice(
            (
                f"At home there is a {colours[2]} chair next to the window.",
                f"In the hall hangs a {colours[2]} coat.",
            )
        ),
        f"When asked for three words, {name} says {_and(words)}.",
        rng.choice((f"Next year {name} will be {age + 1}.", f"Last year {name} was {age - 1}.")),
    ]
    thoughts = [
        f"The user wants to read about {name}, who is {age}.",
        "I can make up a friend, a colour and a hobby.",
        f"The friend is {friend} and they meet on {day}.",
        f"Next year the age will be {age + 1}.",
        "Six sentences are enough.",
    ]
    return Task("paragraph", question, thoughts, " ".join(lines))


SMALL = (arithmetic, calendar, colour, listing, fact, paragraph)
