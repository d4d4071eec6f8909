# ruff: noqa: E501 -- one sentence a line reads better than sentences cut in two
"""Small Python functions: asked for, or given with the request to explain them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from .stories import Task


@dataclass(frozen=True)
class _Function:
    """`body` uses {f} for the function name, {x} for its argument and {n} for a small number."""

    names: tuple[str, ...]
    goal: str
    body: str
    notes: tuple[str, ...]
    args: tuple[str, ...] = ("items", "values", "numbers", "data")
    example: str = ""


_FUNCTIONS = (
    _Function(("total", "sum_all", "add_up"), "returns the sum of a list of numbers", """
def {f}({x}):
    result = 0
    for value in {x}:
        result += value
    return result
""", ("The variable result starts at 0.", "The loop adds every value to it.", "In the end the sum is returned."), example="{f}([1, 2, {n}])  # {s}"),
    _Function(("sum_of_squares", "square_sum"), "returns the sum of the squares of a list", """
def {f}({x}):
    return sum(value * value for value in {x})
""", ("The generator squares every value.", "The function sum adds the squares.", "An empty list gives 0.")),
    _Function(("largest", "find_max", "biggest"), "finds the largest number in a list", """
def {f}({x}):
    best = {x}[0]
    for value in {x}[1:]:
        if value > best:
            best = value
    return best
""", ("The first value is taken as the best so far.", "Every larger value replaces it.", "An empty list raises an IndexError.")),
    _Function(("smallest", "find_min"), "finds the smallest number in a list", """
def {f}({x}):
    best = {x}[0]
    for value in {x}[1:]:
        if value < best:
            best = value
    return best
""", ("The first value is taken as the smallest so far.", "Every smaller value replaces it.", "An empty list raises an IndexError.")),
    _Function(("mean", "average"), "returns the average of a list of numbers", """
def {f}({x}):
    if not {x}:
        raise ValueError("no values given")
    return sum({x}) / len({x})
""", ("An empty list raises a ValueError.", "The sum is divided by the number of values.", "The result is a float.")),
    _Function(("count_even", "even_count"), "counts the even numbers in a list", """
def {f}({x}):
    count = 0
    for value in {x}:
        if value % 2 == 0:
            count += 1
    return count
""", ("A number is even when the rest of the division by 2 is 0.", "Every even number adds 1 to count.", "Odd numbers are skipped.")),
    _Function(("only_even", "keep_even"), "keeps only the even numbers of a list", """
def {f}({x}):
    return [value for value in {x} if value % 2 == 0]
""", ("The list comprehension looks at every value.", "It keeps the value when it can be divided by 2.", "The order does not change.")),
    _Function(("greater_than", "above"), "keeps the numbers that are greater than a limit", """
def {f}({x}, limit={n}):
    result = []
    for value in {x}:
        if value > limit:
            result.append(value)
    return result
""", ("The limit is {n} when none is given.", "Values up to the limit are left out.", "The result is a new list.")),
    _Function(("scale", "multiply_all"), "multiplies every number of a list by a factor", """
def {f}({x}, factor={n}):
    return [value * factor for value in {x}]
""", ("The factor is {n} when none is given.", "Every value is multiplied by it.", "The old list stays the same.")),
    _Function(("reverse_text", "backwards"), "reverses a string", """
def {f}({x}):
    return {x}[::-1]
""", ("The slice goes from the end to the start.", "The step of -1 turns the order around.", "It works for lists too."), ("text", "word", "line", "name")),
    _Function(("is_palindrome", "same_both_ways"), "checks whether a word reads the same from both sides", """
def {f}({x}):
    clean = {x}.lower().replace(" ", "")
    return clean == clean[::-1]
""", ("First the text is made lower case and the spaces are removed.", "Then it is compared with its reverse.", "The result is True or False."), ("text", "word", "line")),
    _Function(("count_words", "word_count"), "counts how often every word appears in a text", """
def {f}({x}):
    counts = {{}}
    for word in {x}.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts
""", ("The text is split at the spaces.", "The method get returns 0 for a new word.", "The result is a dictionary."), ("text", "line", "message")),
    _Function(("count_vowels", "vowels"), "counts the vowels in a text", """
def {f}({x}):
    count = 0
    for letter in {x}.lower():
        if letter in "aeiou":
            count += 1
    return count
""", ("The text is made lower case first.", "Every letter that is one of aeiou adds 1.", "Other letters are skipped."), ("text", "word", "line")),
    _Function(("title_case", "capitalize_words"), "writes every word of a text with a capital letter", """
def {f}({x}):
    words = {x}.split()
    return " ".join(word.capitalize() for word in words)
""", ("The text is split into words.", "Every word gets a capital letter.", "Then they are joined with spaces."), ("text", "line", "name")),
    _Function(("shorten", "cut_text"), "shortens a text that is too long", """
def {f}({x}, width={n}0):
    if len({x}) <= width:
        return {x}
    return {x}[: width - 3] + "..."
""", ("A short text is returned as it is.", "A long text is cut and gets three dots.", "The width is {n}0 when none is given."), ("text", "line", "title")),
    _Function(("factorial", "product_up_to"), "returns the factorial of a number", """
def {f}({x}):
    result = 1
    for i in range(2, {x} + 1):
        result *= i
    return result
""", ("The result starts at 1.", "It is multiplied by 2, 3 and so on.", "The factorial of 0 is 1."), ("n", "number", "limit")),
    _Function(("fibonacci", "fib"), "returns the first Fibonacci numbers", """
def {f}({x}):
    numbers = []
    a, b = 0, 1
    while len(numbers) < {x}:
        numbers.append(a)
        a, b = b, a + b
    return numbers
""", ("The first two numbers are 0 and 1.", "Each number is the sum of the two before it.", "The loop stops when the list is long enough."), ("n", "count", "size")),
    _Function(("is_prime", "prime"), "checks whether a number is a prime number", """
def {f}({x}):
    if {x} < 2:
        return False
    for i in range(2, int({x} ** 0.5) + 1):
        if {x} % i == 0:
            return False
    return True
""", ("Numbers below 2 are not prime.", "The loop tries every divider up to the square root.", "If none divides the number, it is prime."), ("n", "number", "value")),
    _Function(("gcd", "greatest_common_divisor"), "returns the greatest common divisor of two numbers", """
def {f}(a, b):
    while b:
        a, b = b, a % b
    return a
""", ("The pair a, b is replaced by b and the rest of a / b.", "When b is 0, the answer is in a.", "This is the method of Euclid.")),
    _Function(("power", "raise_to"), "raises a number to a power without the operator", """
def {f}(base, exponent={n}):
    result = 1
    for _ in range(exponent):
        result *= base
    return result
""", ("The loop runs exponent times.", "Each round multiplies the result by base.", "The exponent is {n} when none is given.")),
    _Function(("digit_sum", "sum_of_digits"), "adds the digits of a number", """
def {f}({x}):
    total = 0
    while {x} > 0:
        total += {x} % 10
        {x} //= 10
    return total
""", ("The rest of the division by 10 is the last digit.", "Then the last digit is cut off.", "It stops when nothing is left."), ("n", "number", "value")),
    _Function(("unique", "remove_doubles"), "removes double entries but keeps the order", """
def {f}({x}):
    seen = set()
    result = []
    for item in {x}:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result
""", ("The set seen remembers what was there before.", "Only new items are added to the result.", "The order of the first appearance is kept.")),
    _Function(("chunks", "split_into"), "splits a list into parts of the same size", """
def {f}({x}, size={n}):
    result = []
    for start in range(0, len({x}), size):
        result.append({x}[start:start + size])
    return result
""", ("The range jumps by size.", "Each slice holds up to size items.", "The last part may be shorter.")),
    _Function(("flatten", "merge_lists"), "makes one list out of a list of lists", """
def {f}({x}):
    result = []
    for part in {x}:
        result.extend(part)
    return result
""", ("The loop takes one part after another.", "The method extend adds all its items.", "Deeper lists are not opened.")),
    _Function(("group_by_length", "by_length"), "groups words by their length", """
def {f}({x}):
    groups = {{}}
    for word in {x}:
        groups.setdefault(len(word), []).append(word)
    return groups
""", ("The key is the length of the word.", "The method setdefault creates an empty list for a new key.", "The word is added to its list."), ("words", "names", "items")),
    _Function(("invert", "swap_keys"), "swaps the keys and the values of a dictionary", """
def {f}({x}):
    return {{value: key for key, value in {x}.items()}}
""", ("The method items gives pairs of key and value.", "Each pair is turned around.", "If two keys have the same value, the last one wins."), ("mapping", "table", "data")),
    _Function(("read_lines", "load_lines"), "reads the lines of a file without the line ends", """
def {f}({x}):
    with open({x}, encoding="utf-8") as file:
        return [line.rstrip("\\n") for line in file]
""", ("The with statement closes the file again.", "Every line loses its line end.", "A missing file raises an error."), ("path", "filename")),
    _Function(("safe_divide", "divide"), "divides two numbers and returns None when it is not possible", """
def {f}(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return None
""", ("The division is tried first.", "A division by zero is caught.", "Then None is returned.")),
    _Function(("binary_search", "find_sorted"), "finds the position of a value in a sorted list", """
def {f}({x}, target):
    low, high = 0, len({x}) - 1
    while low <= high:
        middle = (low + high) // 2
        if {x}[middle] == target:
            return middle
        if {x}[middle] < target:
            low = middle + 1
        else:
            high = middle - 1
    return -1
""", ("The middle of the range is compared with the target.", "Half of the range is left out in every step.", "The result is -1 when the target is not there.")),
    _Function(("bubble_sort", "sort_list"), "sorts a list with bubble sort", """
def {f}({x}):
    result = list({x})
    for end in range(len(result) - 1, 0, -1):
        for i in range(end):
            if result[i] > result[i + 1]:
                result[i], result[i + 1] = result[i + 1], result[i]
    return result
""", ("The list is copied first.", "Two neighbours are swapped when they are in the wrong order.", "After each round the largest value is at the end.")),
    _Function(("Counter", "Tally", "Meter"), "defines a class that counts up and can be reset", """
class {f}:
    def __init__(self, start={n}):
        self.start = start
        self.value = start

    def add(self, amount=1):
        self.value += amount
        return self.value

    def reset(self):
        self.value = self.start
""", ("The start value is kept for later.", "The method add returns the new value.", "The method reset goes back to the start.")),
    _Function(("Stack", "Pile"), "defines a stack class with push and pop", """
class {f}:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items.pop()

    def __len__(self):
        return len(self.items)
""", ("The items live in a list.", "The method push puts an item on top.", "The method pop takes it away again.")),
)  # fmt: skip
_ASKS = (
    "Write a function that {goal}.", "Write a Python function {f} that {goal}.", "I need Python code that {goal}.",
    "Can you write a function called {f} that {goal}?", "Please write some Python that {goal}.",
)  # fmt: skip
_EXPLAIN_ASKS = (
    "Explain this function:", "What does this code do?", "Please explain the following code line by line:",
    "I do not understand this code. Can you explain it?",
)  # fmt: skip


def _filled(function: _Function, rng: Random) -> tuple[str, str, list[str]]:
    number = rng.randint(2, 9)
    name = rng.choice(function.names)
    slots = {"f": name, "x": rng.choice(function.args), "n": number, "s": 3 + number}
    body = function.body.strip("\n").format(**slots)
    if rng.random() < 0.4:
        head, rest = body.split("\n", 1)
        goal = function.goal[0].upper() + function.goal[1:]
        body = f'{head}\n    """{goal}."""\n{rest}'
    if function.example and rng.random() < 0.5:
        body += "\n\n\n" + function.example.format(**slots)
    return name, body, [note.format(**slots) for note in function.notes]


def write_function(rng: Random) -> Task:
    function = rng.choice(_FUNCTIONS)
    name, body, notes = _filled(function, rng)
    kind = "class" if body.startswith("class") else "function"
    question = rng.choice(_ASKS)
    if kind == "class":
        question = question.replace("a function called", "a class called").replace(
            "Python function", "Python class"
        )
        question = question.replace("a function that defines", "code that defines")
    question = question.format(goal=function.goal, f=name)
    thoughts = [
        f"The user wants Python code that {function.goal}.",
        f"I call the {kind} {name}.",
        *notes,
        "I put the code into a block and explain it in short.",
    ]
    intro = rng.choice(
        ("Here is the code:", f"This {kind} {function.goal}:", "You can write it like this:")
    )
    explained = " ".join(notes if rng.random() < 0.6 else notes[:2])
    return Task("write", question, thoughts, f"{intro}\n\n```python\n{body}\n```\n\n{explained}")


def explain_function(rng: Random) -> Task:
    function = rng.choice(_FUNCTIONS)
    name, body, notes = _filled(function, rng)
    kind = "class" if body.startswith("class") else "function"
    question = f"{rng.choice(_EXPLAIN_ASKS)}\n\n```python\n{body}\n```"
    thoughts = [
        f"The {kind} {name} {function.goal}.",
        "I go through the code from the top to the bottom.",
        *notes,
        "I end with a short summary.",
    ]
    head = rng.choice((f"The {kind} `{name}` {function.goal}.", f"This code {function.goal}."))
    if rng.random() < 0.5:
        detail = "\n".join(f"- {note}" for note in notes)
    else:
        detail = f"{notes[0]} {notes[1]} {notes[2]}"
    tail = rng.choice(
        (
            f"In short, `{name}` {function.goal}.",
            "That is all it does.",
            f"You could use `{name}` in your own program.",
        )
    )
    return Task("explain", question, thoughts, f"{head}\n\n{detail}\n\n{tail}")
