"""Generated documents of three kinds with the right value of each field, for `benchmarks.fields`.

The documents are invoices, letters about staff, and notes of meetings, of 90 to 120 words. They have difficulties of
real documents: several dates, amounts and names, values to be added up or computed, former names, and absent values.
Sentences and their order are drawn at random; the number of a document is its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

FIRST = "Anna Bela Carmen Daria Elif Fiona Greta Irina Leila Mira Olga Selma Boris Cem David Emil Farid Hugo Lars Omar"
LAST = (
    "Abel Bauer Castro Demir Eriksen Fischer Gruber Ivanova Jansen Keller Lindqvist Moreau Novak Okafor Petrov Quist "
    "Rossi Tanaka Urban Vogel Weber Yilmaz Zimmer Arnold Brandt Carlsen Dufour Engel Farkas Huber Kovacs Maier Nagy"
)
CITIES = (
    "Aachen Bergen Coimbra Delft Erfurt Faro Ghent Kiel Linz Nantes Oulu Porto Trier Uppsala Verona Basel Cork Lund"
)
FIRMS = "Cobalt Dunmore Eastgate Fernhill Glasson Harrow Juniper Kestrel Larkfield Northway Pinecrest Redstone Yarrow"
TRADES = "Tools Paper Print Foods Optics Timber Media Freight Textiles Systems Energy Glass"
GOODS = "office chairs, printer paper, desk lamps, cleaning supplies, network cables, packing tape, coffee beans, paint"
TOPICS = (
    "the new website, the trade fair, the summer party, the warehouse move, the price list, the van fleet, the audit"
)

WORDS = 92
"""Fewest words of a document; sentences without a field's value are added until it has so many."""


@dataclass(frozen=True)
class Case:
    """A document with its gold values.

    Attributes:
        gold: the right values of each field; any of them is right. None stands for an absent value.
    """

    kind: str
    number: int
    text: str
    gold: Mapping[str, tuple[Any, ...]]


def cases(kind: str, count: int) -> list[Case]:
    """Return the documents of a kind with numbers below `count`."""
    return [case_of(kind, number) for number in range(count)]


def case_of(kind: str, number: int) -> Case:
    draw = random.Random(f"{kind}-{number}")
    first, body, rest, gold = KINDS[kind](draw)
    text = ""
    draw.shuffle(rest)
    for extra in range(len(rest) + 1):
        sentences = [*body, *rest[:extra]]
        random.Random(number).shuffle(sentences)
        text = draw.choice("  \n").join(sentence for sentence in [first, *sentences] if sentence)
        if len(text.split()) >= WORDS:
            break
    return Case(
        kind, number, text, {name: value if isinstance(value, tuple) else (value,) for name, value in gold.items()}
    )


Parts = tuple[str, list[str], list[str], dict[str, Any]]
"""The first sentence, sentences with values, sentences without, and the gold values."""


def _one(draw: random.Random, templates: str, **values: Any) -> str:
    """Draw one of the templates separated by " | ", and fill in the values in a usual notation."""
    said = {name: _said(draw, value) for name, value in values.items()}
    return draw.choice(templates.split(" | ")).strip().format(**said)


def _sayer(draw: random.Random, values: Mapping[str, Any]) -> Callable[[str], str]:
    return lambda templates: _one(draw, templates, **values)


def _said(draw: random.Random, value: Any) -> str:
    if isinstance(value, date):
        return value.strftime(draw.choice(("%-d %B %Y", "%B %-d, %Y", "%d.%m.%Y", "%a %-d %b %Y", "%Y-%m-%d")))
    if isinstance(value, int | float):
        text = f"{value:,.2f}" if value % 1 or draw.random() < 0.5 else f"{value:,.0f}"
        return draw.choice((f"{text} EUR", f"EUR {text}", f"€{text}"))
    return str(value)


def _day(draw: random.Random) -> date:
    return date(2025, 1, 1) + timedelta(days=draw.randrange(600))


def _days(draw: random.Random, first: int, last: int) -> timedelta:
    return timedelta(days=draw.randrange(first, last))


def _people(draw: random.Random, count: int) -> list[tuple[str, str]]:
    return [(draw.choice(FIRST.split()), last) for last in draw.sample(LAST.split(), count)]


def _invoice(draw: random.Random) -> Parts:
    one = partial(_one, draw)
    names = [f"{firm} {draw.choice(TRADES.split())}" for firm in draw.sample(FIRMS.split(), 3)]
    short, other, former = names
    vendor, customer = (f"{name} {draw.choice(('Ltd', 'GmbH', 'Inc', 'AG'))}" for name in (short, other))
    issued, kind = _day(draw), draw.choice(("invoice", "invoice", "reminder", "credit note"))
    own = f"{draw.choice('ABRX')}{draw.choice('GHKT')}-{draw.randrange(1000, 9999)}"
    numbers = {"order": str(draw.randrange(10**4, 10**6)), "client": str(draw.randrange(10**4, 10**6))}
    goods = draw.sample(GOODS.split(", "), draw.choice((1, 2, 2, 3)))
    prices = [draw.randrange(20, 900) + draw.choice((0, 0, 0.5, 0.9)) for _ in goods]
    net, shipping = round(sum(prices), 2), draw.choice((0, 0, 9.5, 14))
    tax = round(net * draw.choice((0.07, 0.19, 0.2)), 2)
    gross = round(net + tax + shipping, 2)
    deposit = draw.choice((0, 0, 0, 50, 100)) if gross > 150 else 0
    days, how, early = draw.choice((10, 14, 30)), draw.random(), draw.random() < 0.4
    due: date | None = issued + timedelta(days=days)
    pay = one("Payable by {due}. | Please transfer the amount no later than {due}. | We expect it by {due}.", due=due)
    if how < 0.2:
        pay = one("Payable within {n} days of this document's date. | Terms: {n} days net from today.", n=str(days))
    elif how < 0.4:
        pay, due = one(" | Payment terms as agreed."), None
    title = {
        "invoice": "Invoice | Our invoice | Bill",
        "reminder": "Reminder of invoice | Second notice about invoice",
        "credit note": "Credit note for invoice | Refund, invoice",
    }[kind]
    firms = {"vendor": vendor, "customer": customer}
    who = "From: {vendor}, to: {customer}. | To {customer}. {vendor} thanks you. | {customer} bought from {vendor}."
    head = f"{one(title)} {own}, {_said(draw, issued)}. {one(who, **firms)}"
    listed = "; ".join(f"{what} {_said(draw, price)}" for what, price in zip(goods, prices, strict=True))
    body = [
        one("Items: {list}. | We delivered {list}. | Positions without tax: {list}.", list=listed),
        one("VAT: {tax}. | Tax: {tax}. | Sales tax: {tax}.", tax=tax)
        + (f" Shipping: {_said(draw, shipping)}." if shipping else ""),
        one("Total with all charges: {gross}. | Sum of all positions with tax: {gross}.", gross=gross),
        one("You have already paid {paid} in advance.", paid=deposit) if deposit else "",
        pay,
        one("Pay within 7 days and deduct 2 percent. | Early payers get 3 % off.") if early else "",
    ]
    rest = [
        one("It concerns order {order} of {then}.", **numbers, then=issued - _days(draw, 3, 40)),
        one("Your customer number is {client}; please quote it with every question about your goods.", **numbers),
        one(
            "{short} was called {former} until last year. | {former} delivers in our name.", short=short, former=former
        ),
        one("Delivery took place on {then}. | The goods left our store on {then}.", then=issued - _days(draw, 1, 3)),
        one("No other discounts apply. | Our prices hold until {then}.", then=issued + _days(draw, 60, 90)),
        "Goods remain ours until they are paid in full, and we charge interest on late payments.",
        one(
            "The next order from {from_} ships free. | Returns below {from_} cost a fee.",
            from_=50 * draw.randrange(2, 9),
        ),
        "Questions? Call our office in the mornings, or write to the address on our web page.",
        "All goods were checked by two of our people before they left the warehouse.",
        "This document was made by a computer and is valid without a signature.",
    ]
    gold: dict[str, Any] = {
        "number": own,
        "vendor": (vendor, short),
        "issued": issued.isoformat(),
        "due": due and due.isoformat(),
    }
    return head, body, rest, {**gold, "net": net, "total": round(gross - deposit, 2), "kind": kind, "early": early}


def _staff(draw: random.Random) -> Parts:
    (first, last), (_, married), *others = _people(draw, 5)
    before, boss, deputy = (" ".join(person) for person in others)
    reason = draw.choice(("marriage", "divorce", "promotion", "move"))
    former = married if reason in ("marriage", "divorce") else None
    start, (old, new) = _day(draw), draw.sample(CITIES.split(), 2)
    moves, raised = reason == "move" or draw.random() < 0.4, reason == "promotion" or draw.random() < 0.5
    salary, rise, reply = 50 * draw.randrange(50, 110), 25 * draw.randrange(2, 24), draw.random() < 0.5
    names: dict[str, Any] = {"first": first, "last": last, "former": former, "old": old, "new": new, "boss": boss}
    names |= {"before": before, "deputy": deputy, "pay": salary, "rise": rise, "sum": salary + rise, "start": start}
    names |= {"asked": start - _days(draw, 3, 60)}
    why = {
        "marriage": "{first} {former} has married and now bears the name {last}. | "
        "After the wedding, {first} {former} is called {last}.",
        "divorce": "Since the divorce, the name is {last} again, no longer {former}. | "
        "{first} {former} gave up the married name and is {last} once more.",
        "promotion": "The board appoints the employee head of the department. | The employee will lead the team.",
        "move": "The employee changes to another branch of ours. | The employee relocates, as requested.",
    }[reason]
    head = "Dear {first} {last}, | Personnel file of {first} {last}. | Note for the file, {asked}: {first} {last}."
    home = "The flat in {old} is given up; the new address is in {new}. | The employee leaves {old} for {new}."
    stays = "The address in {old} stays the same; the office is in {new}. | Home remains {old}, the team sits in {new}."
    more = (
        "The monthly salary of {pay} rises by {rise}. | Pay per month: so far {pay}, plus {rise} from now on. | "
        "The salary goes up from {pay} to {sum} a month."
    )
    same = "The monthly salary stays at {pay}; a bonus of {rise} is paid once. | Pay is unchanged: {pay} a month."
    boss_is = (
        "Supervisor is {boss}, who follows {before}. | {before} hands the supervision over to {boss}. | "
        "From then on reports go to {boss}, in absence to {deputy}."
    )
    answer = "Please confirm in writing within a week. | We ask the employee to sign and return the form."
    body = [
        "This counts from {start}. | Effective date: {start}. | The change is valid as of {start}.",
        *(why, home if moves else stays, more if raised else same, boss_is),
        answer if reply else "No answer is needed. | The employee need not do anything. | ",
    ]
    rest = (
        "The request came in on {asked}. | The works council agreed on {asked}. / Signed: {deputy}, Human Resources. "
        "| For the company: {deputy}, Administration. / The company car is returned, and the parking permit ends with "
        "the year. / Vacation days that are left over from this year are carried over to the next. / Copies go to "
        "payroll and to the works council, where {before} keeps the file. / The IT department has been told, and the "
        "entry in the directory follows in a few days. / The contract itself stays in force with all its other rules, "
        "such as those about working hours. / The canteen card has to be renewed at the desk on the ground floor. / "
        "We wish all the best for the coming time and thank you for the work so far."
    )
    said = _sayer(draw, names)
    gold: dict[str, Any] = {
        "name": f"{first} {last}",
        "former": (former, f"{first} {former}") if former else None,
        "boss": boss,
    }
    gold |= {"start": start.isoformat(), "city": new if moves else old, "salary": salary + rise * raised}
    return said(head), [*map(said, body)], [*map(said, rest.split(" / "))], {**gold, "reason": reason, "reply": reply}


def _meeting(draw: random.Random) -> Parts:
    people = _people(draw, 8)
    full, lasts = [" ".join(person) for person in people], [last for _, last in people]
    away, there, held = draw.random() < 0.4, draw.randrange(3, 6), _day(draw)
    chair, here = full[away], lasts[away : away + there]
    amounts, granted = [10 * draw.randrange(5, 400) for _ in range(3)], draw.randrange(1, 4)
    length, began = 5 * draw.randrange(5, 30), draw.choice((540, 600, 630, 780, 855))
    topic, unanimous = draw.choice(("budget", "hiring", "schedule", "safety")), draw.random() < 0.5
    room, other = (f"{draw.choice('ABCDE')}{draw.randrange(100, 450)}" for _ in range(2))
    plan, moved = held + _days(draw, 7, 30), held + _days(draw, 31, 60)
    again, day = draw.choice(
        (
            ("The group meets again on {plan}", plan),
            ("The next meeting takes place on {plan}", plan),
            ("The next meeting, planned for {plan}, was put off to {moved}", moved),
            ("A date for the next meeting has yet to be found", None),
        )
    )
    placed = day is not None and draw.random() < 0.6
    about = {
        "budget": "Most of the time went into the money for the coming year. | "
        "The group mainly discussed how to spend what is left of this year's funds.",
        "hiring": "Chiefly the group talked about two vacancies. | The open positions took most of the time.",
        "schedule": "The delays and a new timetable took most of the time. | "
        "Mostly it was about which task has to be done by when.",
        "safety": "The accident in the hall was the main subject. | Above all, escape routes were discussed.",
    }[topic]
    spent = [
        f"{_said(draw, amount)} for {what}"
        for amount, what in zip(amounts, draw.sample(TOPICS.split(", "), 3), strict=True)
    ]
    clock = [f"{minutes // 60}:{minutes % 60:02d}" for minutes in (began, began + length)]
    values: dict[str, Any] = {"plan": plan, "moved": moved, "held": held, "other": other, "chair": chair, "room": room}
    values |= {"away": full[0], "here": ", ".join(here), "begin": clock[0], "end": clock[1], "n": str(length)}
    values |= {"ill": lasts[-1], "voter": here[-1], "writer": full[-2], "spent": " and ".join(spent[:granted])}
    values |= {"earlier": held - _days(draw, 7, 30)}
    lead = "{chair} took the chair in place of {away}, who was ill. | As {away} was away, {chair} led the meeting."
    votes = "{voter} voted against one item. | One item passed with a narrow majority. | There were two abstentions."
    body = [
        "Present: {here}. | {here} attended.",
        lead if away else "{chair} took the chair. | {chair} led the meeting.",
        about,
        "Approved: {spent}. | Granted: {spent}. | Agreed: {spent}.",
        "Start {begin}, end {end}. | The meeting began at {begin} and closed at {end}. | It lasted {n} minutes.",
        f"{again}, in room {{room}}." if placed else f"{again}.",
        "All votes were unanimous. | Nobody voted against any item." if unanimous else votes,
        *(_one(draw, "Turned down: {what}. | Refused: {what}.", what=item) for item in spent[granted:]),
    ]
    rest = (
        "Excused: {ill}. | {ill} sent apologies and asked for the notes. / The notes of {earlier} were accepted. | "
        "The summer meeting of {earlier} was praised once more. / {writer} will write to the landlord about the "
        "heating before the winter comes. / The doors of the archive are to be locked at night; {writer} has the key. "
        "/ Coffee was served, and the new colleagues said a few words about themselves. / A proposal about parking "
        "was left for another time, since the numbers were missing. / Whoever has wishes for the agenda sends them to "
        "the office in time. / These notes go to all members and to the board, and they stay in the archive. / The "
        "canteen was thanked for its work during the last weeks."
    )
    said = _sayer(draw, values)
    gold: dict[str, Any] = {
        "next": day and day.isoformat(),
        "chair": chair,
        "present": here,
        "budget": sum(amounts[:granted]),
    }
    gold |= {"minutes": length, "room": room if placed else None, "topic": topic, "unanimous": unanimous}
    head = said("Notes, {held}, room {other}. | Minutes of the meeting of {held} in {other}.")
    return head, [*map(said, body)], [*map(said, rest.split(" / "))], gold


KINDS: Mapping[str, Callable[[random.Random], Parts]] = {"invoice": _invoice, "staff": _staff, "meeting": _meeting}
