"""The words of the generated word problems: names, goods, scenes with their events, comparisons."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """What changes the quantity of a scene by one arithmetic operation with the operand ``{n}``.

    ``tellings`` are sentences of the problem, ``workings`` sentences of the solution with ``{eq}`` as the
    equation; both may use ``{name}``, ``{other}`` (another person) and ``{thing}``.
    """

    operator: str
    tellings: tuple[str, ...]
    workings: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A quantity of ``{thing}``, how it begins, what may happen to it, and what is asked at the end."""

    things: tuple[str, ...]
    openings: tuple[str, ...]
    events: tuple[Event, ...]
    questions: tuple[str, ...]


# fmt: off
NAMES = (
    "Ada", "Ben", "Clara", "David", "Elena", "Felix", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Leo",
    "Maria", "Noah", "Olga", "Peter", "Quinn", "Rosa", "Samir", "Tessa", "Umar", "Vera", "Walter",
    "Xenia", "Yusuf", "Zoe", "Anna", "Boris", "Carmen", "Daniel", "Emma", "Farid", "Greta", "Hannah",
    "Ivan", "Julia", "Karl", "Lucy", "Martin", "Nora", "Oscar", "Paula", "Robert", "Sara", "Thomas",
    "Ursula", "Victor", "Wendy", "Alice", "George", "Helen", "James", "Kofi", "Lena", "Mei", "Nadia",
    "Omar", "Priya", "Raj", "Sofia", "Tariq", "Amara", "Chen", "Diego",
)

GOODS = (
    "apples", "pears", "pencils", "notebooks", "marbles", "stickers", "candles", "cups", "plates",
    "books", "stamps", "coins", "buttons", "oranges", "lemons", "ribbons", "postcards", "balloons",
    "toys", "shells", "erasers", "rulers", "badges", "cookies", "muffins", "eggs", "flowers", "kites",
    "puzzles", "caps", "scarves", "spoons", "bottles", "boxes", "bags", "brushes", "magnets", "tickets",
)
# fmt: on

COMPARISONS = {
    "+": "{name} has {n} more {thing} than {other}.",
    "-": "{name} has {n} fewer {thing} than {other}.",
    "*": "{name} has {n} times as many {thing} as {other}.",
}
"""Operator → how one person's amount is stated relative to another's."""

_POSSESSION = Scene(
    things=GOODS,
    openings=(
        "{name} has {n} {thing}.",
        "At first {name} has {n} {thing}.",
        "There are {n} {thing} in {name}'s bag.",
        "{name} starts the week with {n} {thing}.",
    ),
    events=(
        Event(
            "+",
            (
                "{other} gives {name} {n} {thing}.",
                "Then {name} finds {n} more {thing}.",
                "{name} buys {n} more {thing}.",
                "Later {name} gets {n} {thing} from {other}.",
            ),
            ("Now there are {eq} {thing}.", "{name} then has {eq} {thing}.", "That makes {eq} {thing}."),
        ),
        Event(
            "-",
            (
                "{name} gives {n} {thing} to {other}.",
                "{name} loses {n} of them.",
                "Then {name} sells {n} {thing}.",
                "{other} takes {n} of the {thing} away.",
            ),
            (
                "After that {name} has {eq} {thing}.",
                "There are {eq} {thing} left.",
                "This leaves {eq} {thing}.",
            ),
        ),
        Event(
            "*",
            (
                "A month later {name} has {n} times as many.",
                "After a good trade the number of {thing} is {n} times as large.",
            ),
            ("The number grows to {eq} {thing}.", "Then {name} has {eq} {thing}."),
        ),
        Event(
            "/",
            (
                "{name} shares the {thing} equally among {n} children and keeps one share.",
                "{name} puts them into {n} equal piles and keeps only one pile.",
            ),
            ("One share is {eq} {thing}.", "{name} keeps {eq} {thing}."),
        ),
    ),
    questions=(
        "How many {thing} does {name} have now?",
        "How many {thing} does {name} have at the end?",
        "How many {thing} are there in the end?",
    ),
)

_SAVINGS = Scene(
    things=("dollars", "coins"),
    openings=(
        "{name} has saved {n} {thing}.",
        "There are {n} {thing} in {name}'s money box.",
        "{name} begins with {n} {thing}.",
    ),
    events=(
        Event(
            "+",
            (
                "{name} earns {n} {thing} by working in the garden.",
                "{other} pays back {n} {thing} to {name}.",
                "For a birthday {name} receives {n} {thing}.",
            ),
            ("The savings rise to {eq} {thing}.", "Now {name} has {eq} {thing}."),
        ),
        Event(
            "-",
            (
                "{name} spends {n} {thing} on lunch.",
                "{name} lends {n} {thing} to {other}.",
                "A new lamp costs {name} {n} {thing}.",
            ),
            ("{name} is left with {eq} {thing}.", "The savings fall to {eq} {thing}."),
        ),
        Event(
            "*",
            ("By the end of the year the savings are {n} times as large.",),
            ("The savings grow to {eq} {thing}.",),
        ),
        Event(
            "/",
            ("{name} splits the money into {n} equal parts and keeps one part.",),
            ("One part is {eq} {thing}.", "{name} keeps {eq} {thing}."),
        ),
    ),
    questions=("How many {thing} does {name} have now?", "How many {thing} are left?"),
)

_TRAVEL = Scene(
    things=("miles", "kilometers", "meters"),
    openings=(
        "{name} walks {n} {thing} in the morning.",
        "On the first day {name} travels {n} {thing}.",
        "{name} rides a bicycle for {n} {thing}.",
    ),
    events=(
        Event(
            "+",
            ("Then {name} goes {n} {thing} further.", "After a rest {name} covers {n} more {thing}."),
            ("So far this is {eq} {thing}.", "The way is now {eq} {thing}."),
        ),
        Event(
            "-",
            ("A shortcut makes the whole way {n} {thing} shorter.",),
            ("With the shortcut it is {eq} {thing}.", "The way shrinks to {eq} {thing}."),
        ),
        Event(
            "*",
            ("{name} repeats the whole way until it has been done {n} times.",),
            ("All rounds together are {eq} {thing}.", "Doing it again and again gives {eq} {thing}."),
        ),
        Event(
            "/",
            ("The way is then divided into {n} equal stages, and {name} does only one of them.",),
            ("One stage is {eq} {thing}.",),
        ),
    ),
    questions=("How many {thing} does {name} cover?", "How long is the way in {thing}?"),
)

_STORE_ROOM = Scene(
    things=("boxes", "sacks", "crates", "barrels", "bottles", "chairs", "books"),
    openings=(
        "A store room holds {n} {thing}.",
        "{name} counts {n} {thing} in the shop.",
        "In the morning there are {n} {thing} on the shelf.",
    ),
    events=(
        Event(
            "+",
            ("A truck brings {n} more {thing}.", "{name} carries in {n} {thing}."),
            ("With the new ones there are {eq} {thing}.", "The stock rises to {eq} {thing}."),
        ),
        Event(
            "-",
            ("{n} of them are sold.", "{other} takes out {n} {thing}.", "{n} {thing} turn out to be broken."),
            ("The stock falls to {eq} {thing}.", "There remain {eq} {thing}."),
        ),
        Event(
            "*",
            ("Before the holidays the stock becomes {n} times as large.",),
            ("The stock is then {eq} {thing}.",),
        ),
        Event(
            "/",
            ("The {thing} are spread evenly over {n} rooms, and {name} looks at one room only.",),
            ("Each room holds {eq} {thing}.", "One room has {eq} {thing}."),
        ),
    ),
    questions=("How many {thing} are there now?", "How many {thing} does {name} count at the end?"),
)

SCENES = (_POSSESSION, _POSSESSION, _SAVINGS, _TRAVEL, _STORE_ROOM)
"""Possession stands twice: it has the most wordings."""
