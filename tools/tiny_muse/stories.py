# ruff: noqa: E501 -- one sentence a line reads better than sentences cut in two
"""Short stories and how-to explanations from a seeded grammar.

Every story runs through fixed stages (opening, trouble, scenes, help, solution, ending)
and no stage draws the same sentence twice, so the text has no loops in it. Heroes, treasures and
places bring their own words (tables below), which the models have to know or to look up.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from random import Random

NAMES = (
    "Mia", "Tom", "Lena", "Omar", "Ruth", "Hugo", "Nora", "Felix", "Ida", "Paul", "Zoe", "Karl",
    "Anna", "Ben", "Clara", "David", "Ella", "Frank", "Greta", "Henry", "Iris", "Jonas", "Kate",
    "Leo", "Maya", "Nils", "Olga", "Peter", "Rosa", "Sam", "Tara", "Victor", "Wanda", "Yusuf",
)  # fmt: skip
# hero: how it moves, what it likes to do, what it carries, what it says
HEROES: dict[str, tuple[str, str, str, str]] = {
    "fox": ("trotted", "sleep in the sun", "a bag of berries", "Clever paws find every way"),
    "baker": ("walked", "bake small cakes", "a wooden spoon", "A warm loaf opens many doors"),
    "girl": ("skipped", "draw with chalk", "a paper crown", "I am not afraid of the dark"),
    "boy": ("ran", "climb on walls", "a pocket full of nuts", "Wait for me"),
    "cat": ("crept", "sit on the window sill", "a ball of wool", "I always land on my feet"),
    "robot": ("rolled", "count the stars", "a small screwdriver", "My battery is almost empty"),
    "sailor": ("marched", "tie strong knots", "a long rope", "The wind is on our side"),
    "gardener": ("strolled", "water the roses", "a green can", "Everything grows in its own time"),
    "teacher": ("hurried", "read old maps", "a piece of chalk", "Let us think before we act"),
    "mouse": ("scurried", "nibble on crumbs", "half a walnut", "Small feet make no noise"),
    "painter": ("wandered", "mix new colours", "a thin brush", "Look at the light over there"),
    "farmer": ("tramped", "feed the hens", "a sack of corn", "We must be home before the rain"),
    "bear": ("stomped", "swim in the lake", "a pot of honey", "I could eat a whole tree"),
    "pilot": ("limped", "watch the clouds", "a pair of goggles", "From above it would be easy"),
    "goat": ("hopped", "jump over fences", "a bunch of grass", "No hill is too high for me"),
    "doctor": ("rushed", "mix herbal tea", "a black case", "First we must stay calm"),
    "owl": ("flew", "read by moonlight", "a grey feather", "The night shows what the day hides"),
    "tailor": (
        "shuffled",
        "sew bright shirts",
        "a needle and some thread",
        "One stitch after another",
    ),
    "singer": ("danced", "sing by the fountain", "a sheet of music", "Every road has its own tune"),
    "rabbit": ("dashed", "dig long tunnels", "two fresh carrots", "My ears hear everything"),
}
# treasure: what it was good for, where it is found again
TREASURES: dict[str, tuple[str, str]] = {
    "lantern": ("lit up the darkest room", "on a hook in the stable"),
    "clock": ("never missed a minute", "inside an old wardrobe"),
    "kite": ("rose higher than the church tower", "in the top of a pear tree"),
    "map": ("showed every path in the land", "between two heavy books"),
    "bell": ("rang as clear as water", "around the neck of a sheep"),
    "key": ("fitted only one lock in the world", "in a crack of the stairs"),
    "boat": ("had crossed the lake a hundred times", "behind a wall of reeds"),
    "book": ("told of kings and dragons", "on the seat of a coach"),
    "violin": ("could make a stone cry", "in a box full of straw"),
    "ring": ("shone even at midnight", "in the nest of a magpie"),
    "hat": ("kept off the rain and the sun", "on the head of a scarecrow"),
    "basket": ("was always full of plums", "under a pile of leaves"),
    "letter": ("had come from far across the sea", "in the pocket of a coat"),
    "ladder": ("reached up to the roof", "at the bottom of a dry well"),
    "mirror": ("showed only friendly faces", "behind a heavy curtain"),
    "drum": ("could be heard for miles", "in the cellar of the inn"),
    "blanket": ("was softer than snow", "on the back of a donkey"),
    "compass": ("always pointed to the sea", "in the sand near a wreck"),
    "cake": ("smelled of butter and cherries", "on a shelf in the pantry"),
    "seed": ("could grow into a giant flower", "in the beak of a pigeon"),
}
# place: what can be seen there, what can be heard there, who lives there
PLACES: dict[str, tuple[str, str, str]] = {
    "village": ("smoke over the chimneys", "the hammer of the smith", "an old miller"),
    "forest": ("moss on every stone", "a woodpecker in the distance", "a shy hunter"),
    "harbour": ("nets that hung out to dry", "the cry of the gulls", "a captain with one eye"),
    "mountain": (
        "snow on the highest rocks",
        "stones that rolled down",
        "a hermit with a long beard",
    ),
    "island": ("shells all along the beach", "the waves on the rocks", "a woman who sold pearls"),
    "market": ("stalls with cheese and fish", "the shouting of the traders", "a seller of spices"),
    "valley": ("fields of yellow wheat", "a stream under the grass", "two quiet shepherds"),
    "old town": ("crooked houses with blue doors", "steps on the cobbles", "a maker of candles"),
    "desert": ("nothing but sand and thorns", "the hiss of the wind", "a rider on a camel"),
    "river bank": (
        "willows that touched the water",
        "frogs among the lilies",
        "a ferryman in a red cap",
    ),
    "castle": (
        "flags on the round towers",
        "trumpets behind the gate",
        "a guard with a rusty spear",
    ),
    "school": (
        "ink stains on the desks",
        "children who learned a poem",
        "a caretaker with many keys",
    ),
    "farm": ("cows behind a broken fence", "the creak of the mill", "a boy who milked the cows"),
    "lighthouse": (
        "a beam that turned all night",
        "thunder over the bay",
        "a keeper who never slept",
    ),
    "garden": ("apples on the ground", "bees around the lavender", "a lady with a straw hat"),
    "library": ("dust on the tall shelves", "the turning of pages", "a reader with thick glasses"),
}
COLOURS = (
    "red", "blue", "green", "yellow", "white", "black", "silver", "golden", "purple", "brown",
)  # fmt: skip
WEATHERS = (
    "sunny", "rainy", "windy", "cold", "warm", "foggy", "snowy", "quiet", "stormy", "bright",
)  # fmt: skip
MOODS = ("happy", "tired", "brave", "worried", "curious", "calm", "proud", "lonely", "cheerful")

# [a|b|c] is a choice of words. Which one is taken depends on the story's name, hero, treasure or
# place (see `worded`), so that it can be known, but not from the words just before it.
_OPENINGS = (
    "[Once upon a time|Long ago|Many years ago|In the old days], [there was|there lived|people knew|everybody loved] a [{mood}|{mood} and kind|{mood} little|rather {mood}] {hero} [called|named|by the name of] {name}, who [lived in|came from|had a house in|worked in] a {place} and [owned|kept|treasured|had found] a {colour} {treasure} that {use}.",
    "In a {place} with {sight}, [there lived|there was|you could meet|people knew] a [young|little|clever|quiet] {hero} [named|called] {name}. The [most precious|dearest|finest|only valuable] thing {name} [had|owned|ever got|could show] was a {colour} {treasure}, [because|since|for] it {use}.",
    "{name} was a [clever|young|gentle|stubborn] {hero} from the {place} who [liked to|loved to|used to|was proud to] {habit}. In the [hall|kitchen|corner|attic] [stood|lay|waited|was kept] a [lovely|shiny|heavy|strange] {colour} {treasure} that {use}.",
)
_PLANS = (
    "One {weather} [morning|evening|day|night], {name} [wanted to|went out to|got up to|was going to] {habit} and [saw|noticed|found|was told] that the {treasure} was [gone|missing|lost|no longer there].",
    "One {weather} [morning|evening|day|night], {name} [lent|gave|showed|handed] the {treasure} to {dweller}, who [did not come back|forgot about it|moved away|lost it at once].",
    "On a {weather} [afternoon|evening|morning], a [thief|stranger|crow|gust of wind] [took|stole|carried off|snatched] the {treasure} and [fled|disappeared|headed|went off] towards the {other}.",
    "On a {weather} [afternoon|evening|morning], the {treasure} [fell|rolled|slipped|bounced] [off a cart|out of a bag|from a wagon|off the roof] [on the way to|not far from|somewhere near|on the road to] the {other}.",
)
_SCENES = (
    "So {name} [packed|picked up|grabbed|took] {tool} and {moves} [towards|to|in the direction of|all the way to] the {other}.",
    "{name} {moves} for [an hour|a whole day|three hours|half the night] and [heard|noticed|met] nothing but {sound}.",
    "In the {other}, {name} [saw|found|admired|came across] {sight2} and [listened to|heard|wondered about|was startled by] {sound2}.",
    'There {name} [met|found|spoke with|ran into] {dweller2}, who [pointed to the west|shook a fist|smiled|thought for a while] and [said|answered|whispered|shouted]: "{saying2}."',
    '"{saying}," [said|thought|muttered|cried] {name} and {moves} [on|away|ahead|further].',
    "{name} [traded|swapped|gave away|sold] {tool} for a {colour2} [ribbon|candle|coin|apple] and [a good piece of advice|a cup of hot soup|a bed for the night|an old song].",
    "When it [got dark|began to snow|was midnight|grew quiet], {name} [dreamed of|remembered|thought of|told a moth about] the [time|days|year|summer] when the {treasure} {use}.",
    "{name} felt {mood2}, but [did not want to give up|kept looking|went on|tried once more].",
    "A {colour2} [bird|butterfly|squirrel|beetle] [came|flew|hurried|turned] [by|near|up] and [sang|told a tale|spoke|made a rhyme] about {sight2}.",
    "The [road|night|path|day] was [long|cold|dusty|steep], and there was [no time|no reason|no way|little chance] to {habit}.",
)
_HELPS = (
    "[At last|In the end|Suddenly|After a while], {friend} the {helper} {moves2} [along|by|over|closer] and [offered to help|asked what was wrong|waved|had a plan].",
    '[Just then|At that moment|Before long|Luckily], {friend} the {helper} [called down|looked out|shouted|whistled] from a [window|tree|tower|wall]: "{saying2}!"',
    "It was {friend} the {helper}, [always with|who carried|known for|never without] {tool2}, who [had the right idea|knew what to do|found the first clue|was not fooled].",
    "[By chance|As luck would have it|Strangely enough|Of course], {friend} the {helper} had [stopped there|come|stayed awake|sat down] to {habit2} and had [seen everything|heard a noise|found a trace|noticed the thief].",
)
_SOLUTIONS = (
    "{friend} [knew where to look|led the way|lifted a lamp|asked for silence], and there [lay|was|waited|stood] the {treasure}, {hiding}.",
    "[Together|Side by side|Step by step|Without a word] they [searched|walked|dug|looked around] until {name} [found|saw|reached|recognised] the {colour} {treasure} {hiding}.",
    "With {tool2} they [followed the tracks|made a trap|lit the way|measured the ground], and [soon|at dawn|in no time|finally] the {treasure} was [found|seen|safe|back] {hiding}.",
    "They [asked|paid|thanked|surprised] {dweller2}, who had [put|hidden|kept|dropped] the {treasure} {hiding}.",
)
_ENDINGS = (
    "That night {name} [slept well|sat by the fire|smiled in the dark|could not stop laughing], and [again|once more|as before|at last] the {treasure} {use}.",
    "[From that day on|Since then|Ever after|Every spring], {name} and {friend} [met|came together|wrote letters|took a week off] to {habit} or to {habit2}.",
    "{name} {moves} home feeling {mood}, and [everybody|the whole street|every child|half the people] in the {place} [heard the news|cheered|wanted to see it|came for tea].",
    "Back in the {place}, they [listened to|laughed about|fell asleep to|sang along with] {sound} and [ate soup|were content|drank tea|made plans].",
)
_MORALS = (
    "[The moral is simple|Remember this|So it is true|It shows one thing]: [ask for help|be patient|look twice|share what you have] [when you need it|and you will be glad|before it is too late|as long as you can].",
    "[So|And so|That is why] a [friend|neighbour|good heart|clear head] is worth more than a {treasure}.",
    'As {friend} [always|often|still] says: "{saying2}."',
    "And that is how {name} the {hero} [learned to share|became famous|found a friend|lost all fear].",
)
_THOUGHTS = (
    "[The user|Somebody] [wants|asks for|would like|needs] a {length}[story|tale] about {name} the {hero}.",
    "[It needs|There must be|I use|I take] a {treasure} that [gets lost|goes missing|is taken away] and is found [again|later|in the end].",
    "The place is the {place}, and [on the way|later|after that] {name} [sees|visits|reaches] the {other}.",
    "[A helper would be good|Somebody should help|The helper could be this one]: {friend} the {helper}.",
    "[I begin with|First comes|I start with] who {name} is, then the [trouble|loss|problem], then the [search|journey|way].",
    "[I close with|It should have|I want] a [friendly|calm|happy] ending.",
)
_ASKS = (
    "Tell me a {length}story about a {hero} named {name} and a {treasure}.",
    "Write a {length}story about {name}, a {hero} who loses a {treasure}.",
    "Please tell a {length}story: {name} the {hero}, a {colour} {treasure}, and a {place}.",
    "I would like a {length}story about a {mood} {hero} called {name} who lives in a {place}. It should have a {treasure} in it.",
    "Can you write a {length}tale in which {name} the {hero} looks for a {colour} {treasure}?",
)


@dataclass(frozen=True)
class Task:
    """One question with the reasoning (most important sentence first) and the answer."""

    kind: str
    question: str
    thoughts: list[str]
    answer: str


def story(rng: Random, *, long: bool | None = None) -> Task:
    """A story task; long ones have four scenes and a moral (about 150 to 260 tokens)."""
    long = rng.random() < 0.5 if long is None else long
    name, friend = rng.sample(NAMES, 2)
    hero, helper = rng.sample(list(HEROES), 2)
    place, other = rng.sample(list(PLACES), 2)
    colours = rng.sample(COLOURS, 2)
    moods = rng.sample(MOODS, 2)
    treasure = rng.choice(list(TREASURES))
    moves, habit, tool, saying = HEROES[hero]
    moves2, habit2, tool2, saying2 = HEROES[helper]
    use, hiding = TREASURES[treasure]
    sight, sound, dweller = PLACES[place]
    sight2, sound2, dweller2 = PLACES[other]
    slots = {
        "name": name, "friend": friend, "hero": hero, "helper": helper, "place": place,
        "other": other, "colour": colours[0], "colour2": colours[1], "mood": moods[0],
        "mood2": moods[1], "treasure": treasure, "weather": rng.choice(WEATHERS),
        "moves": moves, "habit": habit, "tool": tool, "saying": saying, "moves2": moves2,
        "habit2": habit2, "tool2": tool2, "saying2": saying2, "use": use, "hiding": hiding,
        "sight": sight, "sound": sound, "dweller": dweller, "sight2": sight2, "sound2": sound2,
        "dweller2": dweller2,
    }  # fmt: skip
    length = rng.choice(("long ", "long ", "")) if long else rng.choice(("short ", "short ", ""))
    lines = [leaning(_OPENINGS, hero, rng), leaning(_PLANS, treasure, rng)]
    scenes = list(_SCENES)
    for _ in range(4 if long else 1):
        lines.append(leaning(tuple(scenes), hero, rng))
        scenes.remove(lines[-1])
    lines += [
        leaning(_HELPS, helper, rng),
        leaning(_SOLUTIONS, treasure, rng),
        leaning(_ENDINGS, hero, rng),
    ]
    if long:
        lines.append(leaning(_MORALS, helper, rng))
    fill = {**slots, "length": length}
    keys = (name, hero, treasure, place)

    def tell(line: str) -> str:
        return worded(line, keys, rng).format(**fill)

    text = " ".join(tell(line) for line in lines)
    half = text.index(". ", len(text) // 2) + 1
    answer = text[:half] + "\n\n" + text[half + 1 :] if long else text
    thoughts = [tell(thought) for thought in _THOUGHTS]
    return Task("story", rng.choice(_ASKS).format(**fill), thoughts, answer)


def leaning(lines: tuple[str, ...], key: str, rng: Random) -> str:
    """A line at random, but two times in three the one that the key stands for."""
    if rng.random() < 0.33:
        return rng.choice(lines)
    return min(lines, key=lambda line: zlib.crc32((key + line).encode()))


def worded(line: str, keys: tuple[str, ...], rng: Random) -> str:
    """Take one option of every [a|b|c]: nine times in ten the one that a key stands for.

    The key of a choice is fixed by its options, and so is the option that each key stands for.
    """

    def pick(match: re.Match[str]) -> str:
        options: list[str] = match[1].split("|")
        if rng.random() < 0.08:
            return rng.choice(options)
        key = keys[zlib.crc32(match[1].encode()) % len(keys)]
        return options[zlib.crc32((key + match[1]).encode()) // 7 % len(options)]

    return re.sub(r"\[([^\]]+)\]", pick, line)


@dataclass(frozen=True)
class _Process:
    topic: str
    goal: str
    steps: tuple[str, ...]
    warning: str


_PROCESSES = (
    _Process("bread is made", "a loaf of bread", (
        "Mix flour, water, salt and a little yeast in a bowl.",
        "Knead the dough for ten minutes until it is smooth.",
        "Let it rest in a warm place for an hour so that it can rise.",
        "Shape it into a loaf and cut the top with a knife.",
        "Bake it in a hot oven until the crust is brown.",
        "Let it cool before you slice it."), "Too much yeast makes it sour."),
    _Process("to plant a tree", "a young tree in the ground", (
        "Choose a place with enough light and space.",
        "Dig a hole twice as wide as the roots.",
        "Put the tree in the middle and hold it straight.",
        "Fill the hole with soil and press it gently with your feet.",
        "Water it well on the first day and twice a week after that.",
        "Tie it to a stick if the wind is strong."), "Do not plant it too deep."),
    _Process("to make tea", "a good cup of tea", (
        "Boil fresh water in a kettle.",
        "Warm the pot with a little hot water.",
        "Add one spoon of tea for each cup.",
        "Pour the water over the leaves and wait for three minutes.",
        "Take the leaves out so that the tea does not get bitter.",
        "Add milk, honey or lemon if you like."), "Water that is too hot burns green tea."),
    _Process("rain forms", "rain from the sea to the ground", (
        "The sun warms the sea, and some of the water becomes vapour.",
        "The warm air rises and carries the vapour up.",
        "High above the ground the air is cold, so the vapour turns into tiny drops.",
        "Many drops together make a cloud.",
        "The drops join until they are too heavy to float.",
        "Then they fall down as rain and flow back to the sea."), "When it is very cold, snow falls instead."),
    _Process("to ride a bicycle", "your first ride", (
        "Set the saddle so that both feet can touch the ground.",
        "Put on a helmet and check the brakes.",
        "Look ahead and not down at the wheel.",
        "Push off with one foot and start to pedal at once.",
        "Steer gently into the direction in which you lean.",
        "Brake with both hands when you want to stop."), "Practise on grass, because falling hurts less there."),
    _Process("a computer program runs", "a program on its way through the machine", (
        "Somebody writes the program as text.",
        "A compiler or an interpreter reads the text and checks the grammar.",
        "It turns every line into simple instructions.",
        "The processor loads one instruction after another from memory.",
        "It does the work, such as adding two numbers, and stores the result.",
        "In the end the result is shown on the screen."), "One wrong letter can stop the whole program."),
    _Process("to wash a woollen jumper", "a clean woollen jumper", (
        "Fill a bowl with cool water and a little mild soap.",
        "Turn the jumper inside out and lay it in the water.",
        "Press it softly for a few minutes.",
        "Change the water until no soap is left.",
        "Roll it in a towel to take out the water.",
        "Let it dry flat on a table."), "Hot water makes wool shrink."),
    _Process("to pack a suitcase", "a well packed suitcase", (
        "Write a list of all the things that you need.",
        "Put the heavy things, such as shoes, at the bottom.",
        "Roll your shirts so that they take less space.",
        "Keep bottles in a plastic bag.",
        "Fill the gaps with socks.",
        "Leave some room for what you will bring home."), "Weigh the case before you leave."),
    _Process("a letter travels", "a letter from one town to another", (
        "You write the address on the front and put a stamp in the corner.",
        "The postman empties the letter box in the evening.",
        "At the post office a machine reads the address.",
        "The letters are sorted by town and put into bags.",
        "A train or a lorry carries the bags through the night.",
        "In the morning another postman brings the letter to the door."), "Without a stamp it comes back to you."),
    _Process("to paint a wall", "a wall in a new colour", (
        "Move the furniture away and cover the floor.",
        "Fill small holes and let them dry.",
        "Put tape along the edges and the windows.",
        "Paint the corners first with a small brush.",
        "Roll the rest from the top to the bottom.",
        "Wait for a few hours and paint it a second time."), "Open a window, because paint smells."),
    _Process("to learn a new word", "a new word in your memory", (
        "Read the word in a sentence and guess what it means.",
        "Look it up and write it down with an example.",
        "Say it aloud three times.",
        "Make a sentence of your own with it.",
        "Repeat it after one day, after a week and after a month.",
        "Use it when you talk with a friend."), "Ten words a day are enough."),
    _Process("bees make honey", "honey from flower to jar", (
        "A bee flies from flower to flower and drinks the sweet juice.",
        "It carries the juice home in a special stomach.",
        "In the hive it gives the juice to other bees.",
        "They put it into small cells made of wax.",
        "They move their wings so that the water dries off.",
        "When the honey is thick, they close the cell with wax."), "A bee makes only one spoon of honey in its life."),
    _Process("to find a bug in a program", "the cause of a bug", (
        "Make the error happen again with the smallest input you can find.",
        "Read the error message from the bottom to the top.",
        "Guess which line is wrong and print the values before it.",
        "Compare them with the values that you expected.",
        "Change one thing at a time and run the program again.",
        "Write a test so that the bug cannot come back."), "Never change ten lines at once."),
    _Process("to cook rice", "soft rice for four people", (
        "Wash the rice until the water stays clear.",
        "Put two cups of water and one cup of rice into a pot.",
        "Add a little salt and bring it to the boil.",
        "Turn down the heat and put the lid on.",
        "Wait for fifteen minutes and do not stir.",
        "Take the pot off the stove and let it rest."), "If you lift the lid, the steam gets out."),
)  # fmt: skip
_PROCESS_ASKS = (
    "Explain how {topic}.", "Please explain step by step how {topic}.", "Give me all the steps of this: how {topic}.",
    "Tell me in detail how {topic}.", "I want to know how {topic}. Please explain it to {whom}.",
    "Write a numbered list that explains how {topic}.",
)  # fmt: skip
_ORDERS = ("First", "Next", "Then", "After that", "Now", "Finally")
_WHOM = ("a child", "a beginner", "my class", "my sister", "my grandfather", "a new student")


def explanation(rng: Random) -> Task:
    """How something is done or happens, as prose or as a numbered list (about 110 to 190 tokens)."""
    process = rng.choice(_PROCESSES)
    ask = rng.choice(_PROCESS_ASKS)
    whom = rng.choice(_WHOM)
    numbered = "numbered" in ask or rng.random() < 0.5
    steps = list(process.steps)
    if rng.random() < 0.3:
        del steps[rng.randrange(1, 5)]
    if numbered:
        body = "\n".join(f"{i}. {step}" for i, step in enumerate(steps, 1))
        intro = rng.choice(("Here are the steps to {goal}:", "This is the way to {goal}:"))
    else:
        orders = [_ORDERS[0], *_ORDERS[1:-1][: len(steps) - 2], _ORDERS[-1]]
        body = " ".join(
            f"{order}, {step[0].lower()}{step[1:]}"
            for order, step in zip(orders, steps, strict=True)
        )
        intro = rng.choice(("It is easier than it looks: {goal}.", "Let us follow {goal}."))
    close = rng.choice(
        ("One more tip: {warning}", "Keep in mind: {warning}", "Remember: {warning}")
    )
    topic = process.topic
    thoughts = [
        f"The user asks how {topic}.",
        f"I need {len(steps)} steps in the right order.",
        f"It begins with this: {steps[0]}",
        f"It ends with this: {steps[-1]}",
        "A numbered list fits." if numbered else "A short text with first, next and then fits.",
        f"I should also warn: {process.warning}",
    ]
    answer = f"{intro}\n\n{body}\n\n{close}".format(goal=process.goal, warning=process.warning)
    return Task("explanation", ask.format(topic=topic, whom=whom), thoughts, answer)
