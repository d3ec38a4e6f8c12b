"""Generated requests with eight tools, and the correct calls of each request."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Gold = tuple[str, Mapping[str, Any]]
"""Name and arguments of a call."""


@dataclass(frozen=True)
class Case:
    """A request, and the calls that a correct reply makes; none if the request needs no tool."""

    request: str
    gold: tuple[Gold, ...]
    kind: str


def _tool(name: str, description: str, required: int, **parameters: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": parameters, "required": [*parameters][:required]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _field(kind: str, description: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "description": description, **more}


CURRENCIES = ["EUR", "USD", "GBP", "JPY"]
TEAMS = ["billing", "technical", "sales"]
TOOLS = [
    _tool(
        "get_weather",
        "Forecast for a city.",
        2,
        city=_field("string", "Name of the city."),
        day=_field("string", "Day of the forecast.", enum=["today", "tomorrow", "weekend"]),
    ),
    _tool(
        "book_room",
        "Book a meeting room.",
        3,
        date=_field("string", "Day as YYYY-MM-DD."),
        start=_field("string", "Start as HH:MM, 24 hours."),
        people=_field("integer", "Number of people who come."),
        projector=_field("boolean", "Whether a projector is needed; only if the user speaks of one."),
    ),
    _tool(
        "convert_currency",
        "Convert an amount of money at today's rate.",
        3,
        amount=_field("number", "Amount to convert."),
        source=_field("string", "Currency of the amount.", enum=CURRENCIES),
        target=_field("string", "Currency that is wanted.", enum=CURRENCIES),
    ),
    _tool(
        "set_timer",
        "Start a countdown.",
        1,
        minutes=_field("integer", "Length in minutes."),
        label=_field("string", "Name of the timer, in the user's words; only if the user gives one."),
    ),
    _tool(
        "find_order",
        "Look up an order of a customer.",
        2,
        order=_field("string", "Number of the order, such as A-1234."),
        wanted=_field("string", "What is to be looked up.", enum=["status", "address", "invoice"]),
    ),
    _tool(
        "create_ticket",
        "Open a ticket for a problem that a team is to solve.",
        3,
        team=_field("string", "Team that solves it.", enum=TEAMS),
        urgent=_field("boolean", "Whether it cannot wait until tomorrow."),
        customer=_field("integer", "Number of the customer."),
    ),
    _tool(
        "search_flights",
        "Search flights.",
        3,
        origin=_field("string", "City of departure."),
        destination=_field("string", "City of arrival."),
        date=_field("string", "Day of departure as YYYY-MM-DD."),
        passengers=_field("integer", "Number of passengers; only if it is not 1."),
    ),
    _tool(
        "send_message",
        "Send a message to a colleague.",
        2,
        to=_field("string", "First name of the colleague."),
        channel=_field("string", "How to send it.", enum=["mail", "chat", "sms"]),
    ),
]
CITIES = ["Lisbon", "Oslo", "Porto", "Vienna", "Graz", "Turin", "Bergen", "Lyon", "Ghent", "Malmö"]
NAMES = ["Ana", "Bert", "Carla", "Deniz", "Emil", "Farah"]
MONTHS = ["January", "March", "May", "July", "September", "November"]
MINUTES_IN_WORDS = {
    15: "a quarter of an hour",
    30: "half an hour",
    45: "three quarters of an hour",
    90: "an hour and a half",
}
WITHOUT_TOOL = [
    "Thanks, that is all for today!",
    "What is the capital of Norway?",
    "What does it mean to convert a currency? I only want to understand the idea.",
    "Which of your tools could tell me about rain? Do not use it, just name it.",
    "I have already booked the room for Monday, so there is nothing left to do. Wish me luck!",
    "Why do deserts get so cold at night?",
    "Write a two-line poem about a lost parcel.",
    "Do not set a timer. How long does an egg take to boil hard?",
    "Who invented the airplane?",
    "Order me a pizza with olives.",
    "Play some quiet music, please.",
    "My flight to Oslo was wonderful. What should one eat there?",
    "How do you spell 'currency'?",
    "Is 90 minutes longer than an hour?",
    "Translate 'the meeting is at nine' into French.",
    "If somebody asks me for the status of an order, what should I ask first?",
    "Bert sent me a message yesterday and I laughed a lot. How are you?",
    "What is 15 percent of 80?",
    "Explain in one sentence what a support ticket is.",
    "Turn off the lights in the kitchen.",
    "I was in Vienna last May. Tell me something about its coffee houses.",
    "Cancel my subscription to the newspaper.",
    "What could EUR stand for, apart from the currency?",
    "Please say hello.",
    "Which is larger, Porto or Lisbon?",
    "Rename the file report.txt to final.txt.",
    "Give me three names for a meeting room.",
    "What did people use before timers existed?",
    "Is a projector heavy?",
    "Tell me a joke about airports.",
]


def _weather(draw: random.Random) -> tuple[str, Gold]:
    city, other = draw.sample(CITIES, 2)
    day, said = draw.choice(
        [("today", "this evening"), ("tomorrow", "tomorrow"), ("weekend", "on Saturday and Sunday")]
    )
    asked = draw.choice(
        [f"Do I need an umbrella in {city} {said}?", f"I leave {other} for {city}. Will it be warm there {said}?"]
    )
    return asked, ("get_weather", {"city": city, "day": day})


def _room(draw: random.Random) -> tuple[str, Gold]:
    day, month, hour, people = draw.randint(1, 28), draw.randrange(6), draw.randint(1, 6), draw.randint(3, 9)
    when = f"{day} {MONTHS[month]} 2026 at {hour} in the afternoon"
    text = f"We are {people} and two guests join us: get us a room on {when}"
    arguments: dict[str, Any] = {
        "date": f"2026-{2 * month + 1:02}-{day:02}",
        "start": f"{hour + 12}:00",
        "people": people + 2,
    }
    if draw.random() < 0.4:
        text, arguments["projector"] = f"{text}, with a projector", True
    return f"{text}.", ("book_room", arguments)


def _currency(draw: random.Random) -> tuple[str, Gold]:
    said = {"EUR": "euros", "USD": "dollars", "GBP": "pounds", "JPY": "yen"}
    source, target = draw.sample(CURRENCIES, 2)
    amount, rate = draw.randint(12, 990), draw.randint(2, 9)
    asked = draw.choice(
        [
            f"What are {amount} {said[source]} in {said[target]}?",
            f"How many {said[target]} do I need if I owe {amount} {said[source]} and "
            f"the fee of {rate} is paid already?",
        ]
    )
    return asked, ("convert_currency", {"amount": amount, "source": source, "target": target})


def _timer(draw: random.Random) -> tuple[str, Gold]:
    minutes = draw.choice([*MINUTES_IN_WORDS, 7, 25, 120])
    said = MINUTES_IN_WORDS.get(minutes, "two hours" if minutes == 120 else f"{minutes} minutes")
    if draw.random() < 0.5:
        label = draw.choice(["pasta", "laundry", "tea"])
        return f"Remind me of the {label} in {said}.", ("set_timer", {"minutes": minutes, "label": label})
    return f"Wake me in {said}, please.", ("set_timer", {"minutes": minutes})


def _order(draw: random.Random) -> tuple[str, Gold]:
    order, other = (f"{draw.choice('ABC')}-{draw.randint(1000, 9999)}" for _ in range(2))
    wanted, said = draw.choice(
        [("status", "Has it left?"), ("address", "Where does it go?"), ("invoice", "What did they pay?")]
    )
    return f"Not {other} but {order}, the order of {draw.choice(NAMES)}: {said}", (
        "find_order",
        {"order": order, "wanted": wanted},
    )


def _ticket(draw: random.Random) -> tuple[str, Gold]:
    team, said = draw.choice(
        [("billing", "was charged twice"), ("technical", "cannot log in"), ("sales", "wants an offer for 50 seats")]
    )
    urgent, customer = draw.random() < 0.5, draw.randint(1000, 9999)
    when = "It must be solved within the hour." if urgent else "Next week is early enough."
    return f"Customer {customer} {said}. {when} Open a ticket.", (
        "create_ticket",
        {"team": team, "urgent": urgent, "customer": customer},
    )


def _flight(draw: random.Random) -> tuple[str, Gold]:
    origin, destination = draw.sample(CITIES, 2)
    day, month = draw.randint(1, 28), draw.randrange(6)
    arguments: dict[str, Any] = {
        "origin": origin,
        "destination": destination,
        "date": f"2026-{2 * month + 1:02}-{day:02}",
    }
    who = "I have"
    if draw.random() < 0.5:
        who, arguments["passengers"] = "My wife, our son and I have", 3
    return f"{who} to be in {destination} on {day} {MONTHS[month]} 2026 and start in {origin} that day. What flies?", (
        "search_flights",
        arguments,
    )


def _message(draw: random.Random) -> tuple[str, Gold]:
    name, other = draw.sample(NAMES, 2)
    channel, said = draw.choice([("mail", "by e-mail"), ("chat", "in the chat"), ("sms", "as a text to the phone")])
    return f"{other} is ill. Tell {name} {said}.", ("send_message", {"to": name, "channel": channel})


def cases(count: int = 120, seed: int = 7) -> list[Case]:
    """Return requests in random order: a quarter need no tool, an eighth need two calls."""
    draw = random.Random(seed)
    makers = [_weather, _room, _currency, _timer, _order, _ticket, _flight, _message]
    made = [Case(text, (), "none") for text in WITHOUT_TOOL[: count // 4]]
    for number in range(count // 8):
        (one, first), (other, second) = (makers[(number + step) % 8](draw) for step in (0, 3))
        made.append(Case(f"{one} And one more thing: {other}", (first, second), "two"))
    while len(made) < count:
        text, gold = makers[len(made) % 8](draw)
        made.append(Case(text, (gold,), "one"))
    draw.shuffle(made)
    return made
