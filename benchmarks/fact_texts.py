"""Prompts for long texts with the right value of each fact, for `benchmarks.facts`.

Knowledge comes from the packages countryinfo, pycountry and mendeleev (`pip install countryinfo pycountry mendeleev`).
Documents and instructions are drawn at random; the number of a prompt is its seed.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from benchmarks.fact_values import plain

FIRST = (
    "Anna Boris Clara Daniel Elena Farid Grace Hugo Irene Jonas Katya Liam Maria Nadia Oscar Paula Quentin Rosa Samuel "
    "Tara Umar Vera Walter Xenia Yusuf Zoe"
)
LAST = (
    "Abbott Bergman Castillo Dupont Eriksen Fischer Gallo Hansen Ivanov Jensen Kowalski Lindgren Moreau Novak Okafor "
    "Petrov Quinn Rossi Schmidt Tanaka Ullman Vargas Weber Xu Young Zimmer"
)
FIRMS = (
    "Northwind Traders|Alder & Sons|Bluepeak Logistics|Castor Systems|Delta Paper|Eastgate Foods|Fairmont Tools|"
    "Granite Works|Harbor Textiles|Ironbridge Motors|Juniper Labs|Kestrel Media"
)
GOODS = (
    "desk lamp|office chair|printer cartridge|steel shelf|notebook pack|water filter|projector|cable drum|tool box|"
    "paint bucket|hand scanner|label roll"
)
SYSTEMS = (
    "payment gateway|login service|search cluster|mail server|image store|booking database|message queue|report server"
)
CAUSES = (
    "an expired certificate|a full disk|a wrong firewall rule|a memory leak|a failed switch|an untested update|"
    "a broken cooling fan|a duplicate IP address"
)
TOWNS = "Lisbon Graz Tampere Bergen Leuven Brno Porto Malmo Ghent Turin"
TOPICS = "the website|the new office|staff training|the summer event|the delivery vans|the customer survey"
FOODS = (
    "flour g|sugar g|butter g|milk ml|eggs|rice g|lentils g|onions|tomatoes|chicken g|cream ml|water ml|cheese g|"
    "potatoes|mushrooms g|carrots|beans g|oil ml|salt g|honey g"
)
MEDICINES = "Arenol Bixafor Cordexin Dalumine Elvoran Fentrix Golamid Hestopan"
PARTS = (
    "setting up the tables|the welcome speech|the safety briefing|the first workshop|the lunch break|"
    "the second workshop|the laboratory tour|the panel discussion|the award ceremony|cleaning up"
)

COUNTRY = (
    "Write one paragraph about {}. Name its capital, its official language, its currency, the continent it lies on, "
    "its international calling code, its internet top-level domain, its area in square kilometres and one "
    "neighbouring country."
)
ELEMENT = (
    "Write one paragraph about the chemical element {}. Give its symbol, its atomic number, its atomic weight, its "
    "group, period and block in the periodic table, the year of its discovery, the name of its discoverer and its "
    "melting point in degrees Celsius."
)


@dataclass(frozen=True)
class FactPrompt:
    """A prompt for a long text.

    Attributes:
        name: for example "country/Laos"; the part before the slash tells which attributes a text has.
        facts: the right values, as `benchmarks.fact_values` reads them.
        sentences: a sentence with the right value of each attribute, in other words than those of the prompt.
        held_out: whether no constant was chosen on the prompt.
    """

    name: str
    prompt: str
    facts: dict[str, Any]
    held_out: bool
    sentences: dict[str, str] = field(default_factory=dict)


def prompts_of(kind: str, count: int = 100) -> list[FactPrompt]:
    """Return prompts for texts of the kind "knowledge", "summary" or "instruction"."""
    if kind == "knowledge":
        return _knowledge()[:count]
    makers = [_invoice, _incident, _minutes] if kind == "summary" else [_recipe, _schedule, _doses]
    seed = 5900 if kind == "summary" else 7700
    prompts = []
    for number in range(count):
        maker = makers[number % 3]
        prompt, facts = maker(random.Random(seed + number))
        prompts.append(FactPrompt(f"{maker.__name__[1:]}/{number}", prompt, facts, held_out=(number // 3) % 2 == 1))
    return prompts


def _day(draw: random.Random) -> date:
    return date(2025, draw.randint(1, 11), draw.randint(1, 28))


def _written(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _person(draw: random.Random) -> str:
    return f"{draw.choice(FIRST.split())} {draw.choice(LAST.split())}"


def _invoice(draw: random.Random) -> tuple[str, dict[str, Any]]:
    supplier, customer = draw.sample(FIRMS.split("|"), 2)
    day = _day(draw)
    due = day + timedelta(days=draw.choice([14, 21, 30, 45]))
    goods = draw.sample(GOODS.split("|"), 3)
    counts = [draw.randint(2, 24) for _ in goods]
    prices = [draw.randint(4, 180) + draw.choice([0, 0.5, 0.25, 0.9]) for _ in goods]
    subtotal = round(sum(count * price for count, price in zip(counts, prices, strict=True)), 2)
    vat = round(subtotal * 0.2, 2)
    number, contact, town = f"INV-{draw.randint(1000, 9999)}", _person(draw), draw.choice(TOWNS.split())
    lines = "".join(
        f"- {count} x {name} at ${price:.2f} each: ${count * price:.2f}\n"
        for count, name, price in zip(counts, goods, prices, strict=True)
    )
    prompt = (
        "Summarise this invoice in one paragraph. Name the supplier and its contact, the customer, the invoice number, "
        "both dates and the number of days between them, the quantities of the items, the total number of items, the "
        f"VAT and the total.\n\nINVOICE {number}\nSupplier: {supplier}, contact {contact}\nCustomer: {customer}\n"
        f"Invoice date: {_written(day)}\nPayment due: {_written(due)}\nDelivery to: {town}\n{lines}"
        f"Subtotal: ${subtotal:,.2f}\nVAT 20 %: ${vat:,.2f}\nTotal: ${round(subtotal + vat, 2):,.2f}\n"
    )
    facts: dict[str, Any] = {"supplier": supplier, "customer": customer, "number": number, "contact": contact}
    facts |= {"town": town, "date": day.isoformat(), "due": due.isoformat(), "days": (due - day).days}
    facts["count"] = sum(counts)
    facts |= {"subtotal": subtotal, "vat": vat, "total": round(subtotal + vat, 2)}
    items = dict(zip(goods, counts, strict=True))
    return prompt, {**facts, "items": items, "prices": dict(zip(goods, prices, strict=True))}


def _incident(draw: random.Random) -> tuple[str, dict[str, Any]]:
    day = _day(draw)
    start = datetime(2025, 1, 1, draw.randint(0, 18), draw.randint(0, 59))
    found = start + timedelta(minutes=draw.randint(4, 25))
    end = start + timedelta(minutes=draw.randint(45, 280))
    detector, resolver, owner = _person(draw), _person(draw), _person(draw)
    system, other = draw.sample(SYSTEMS.split("|"), 2)
    cause, users, failed = draw.choice(CAUSES.split("|")), draw.randint(12, 980) * 10, draw.randint(1100, 98000)
    ticket, town, cost = f"OPS-{draw.randint(100, 999)}", draw.choice(TOWNS.split()), draw.randint(3, 90) * 500
    due = _written(day + timedelta(days=draw.randint(10, 40)))
    prompt = (
        "Summarise this incident report in one paragraph. Say which system failed on which date, when it started, who "
        "detected it and when, who resolved it and when, how many minutes it lasted and how many minutes passed before "
        "it was detected, the cause, how many users and requests were affected, the cost and the follow-up.\n\n"
        f"INCIDENT REPORT {ticket}\nDate: {_written(day)}\nSystem: {system} (data centre {town})\nStart: "
        f"{start:%H:%M}\nDetected: {found:%H:%M} by {detector}\nResolved: {end:%H:%M} by {resolver}\n"
        f"Users affected: {users:,}\nFailed requests: {failed:,}\nRoot cause: {cause}\nFollow-up: {owner} moves the "
        f"{other} to new hardware by {due}\nEstimated cost: ${cost:,}\n"
    )
    facts: dict[str, Any] = {"ticket": ticket, "date": day.isoformat(), "system": system, "town": town}
    facts["start"] = f"{start:%H:%M}"
    facts |= {"detected": f"{found:%H:%M}", "resolved": f"{end:%H:%M}", "detector": detector, "resolver": resolver}
    facts |= {"owner": owner, "users": users, "failed": failed, "cause": cause, "cost": cost, "due": due}
    minutes = {"duration": (end - start).seconds // 60, "delay": (found - start).seconds // 60}
    return prompt, {**facts, **minutes, "other": other}


def _minutes(draw: random.Random) -> tuple[str, dict[str, Any]]:
    day = _day(draw)
    following = day + timedelta(days=draw.choice([7, 14, 21, 28]))
    people: list[str] = []
    while len(people) < 5:
        person = _person(draw)
        if not any(set(person.split()) & set(each.split()) for each in people):
            people.append(person)
    chair, secretary, first, second, third = people
    start = datetime(2025, 1, 1, draw.randint(8, 15), draw.choice([0, 15, 30, 45]))
    end = start + timedelta(minutes=draw.choice([50, 65, 80, 95, 110]))
    budgets = draw.randint(3, 80) * 1000, draw.randint(3, 80) * 1000
    votes = draw.randint(3, 9)
    against = draw.randint(0, votes - 1)
    topics, town = draw.sample(TOPICS.split("|"), 2), draw.choice(TOWNS.split())
    due = day + timedelta(days=draw.randint(20, 60)), day + timedelta(days=draw.randint(61, 120))
    prompt = (
        "Summarise these minutes in one paragraph. Say when and where the meeting took place and how many minutes it "
        "lasted, who chaired it, how many people were present, what was approved with which budget and by when, who "
        "asked for it, the total of both budgets, the result of the vote, and when the next meeting is and who chairs "
        f"it.\n\nMINUTES\nDate: {_written(day)}, {start:%H:%M} to {end:%H:%M}, {town} office\nChair: {chair}\n"
        f"Secretary: {secretary}\nAlso present: {first}, {second}, {third}\n1. {first} reports on {topics[0]}. Budget "
        f"of ${budgets[0]:,} approved, to be finished by {_written(due[0])}.\n2. {second} asks for ${budgets[1]:,} for "
        f"{topics[1]}. Vote: {votes} for, {against} against. Approved, to be finished by {_written(due[1])}.\n3. "
        f"{third} will contact the supplier.\nNext meeting: {_written(following)}, chaired by {secretary}\n"
    )
    facts: dict[str, Any] = {"date": day.isoformat(), "start": f"{start:%H:%M}", "end": f"{end:%H:%M}", "town": town}
    facts["chair"] = chair
    facts |= {"secretary": secretary, "people": 5, "minutes": (end - start).seconds // 60, "by1": first, "by2": second}
    facts |= {f"{name}{k + 1}": each[k] for name, each in (("budget", budgets), ("topic", topics)) for k in (0, 1)}
    facts |= {"due1": due[0].isoformat(), "due2": due[1].isoformat(), "contact": third, "sum": sum(budgets)}
    facts |= {"votes_for": votes, "votes_against": against, "next": following.isoformat(), "next_chair": secretary}
    return prompt, facts


def _recipe(draw: random.Random) -> tuple[str, dict[str, Any]]:
    served = draw.choice([2, 4, 5, 6])
    people = draw.choice([each for each in (3, 6, 8, 9, 10, 12, 15) if each != served])
    units = {name: unit for name, _, unit in (each.partition(" ") for each in FOODS.split("|"))}
    chosen = draw.sample([*units], 6)
    amounts = {
        name: draw.randint(1, 6) * served if not units[name] else draw.choice([5, 10, 15, 20, 25, 30, 40]) * served
        for name in chosen
    }
    minutes = draw.choice([20, 25, 35, 40])
    listed = "".join(f"- {amounts[name]}{f' {units[name]}' if units[name] else ''} {name}\n" for name in chosen)
    prompt = (
        f"This recipe serves {served} people:\n{listed}Bake at {draw.choice([160, 170, 180, 190])} °C for {minutes} "
        f"minutes.\n\nWrite the recipe for {people} people as one paragraph of instructions. State the right amount of "
        f"every ingredient for {people} people."
    )
    scaled = {name: amount * people / served for name, amount in amounts.items()}
    return prompt, {"amounts": scaled, "people": people, "time": minutes}


def _schedule(draw: random.Random) -> tuple[str, dict[str, Any]]:
    start = datetime(2025, _day(draw).month, draw.randint(1, 28), draw.randint(7, 10), draw.choice([0, 15, 30, 45]))
    parts = [name for name in PARTS.split("|") if name in draw.sample(PARTS.split("|"), 5)]
    lengths = [draw.choice([10, 15, 20, 25, 30, 40, 45, 50, 60, 75, 90]) for _ in parts]
    times, now = {}, start
    for name, length in zip(parts, lengths, strict=True):
        times[name] = [f"{now:%H:%M}", f"{now + timedelta(minutes=length):%H:%M}"]
        now += timedelta(minutes=length)
    listed = "".join(f"- {name}: {length} minutes\n" for name, length in zip(parts, lengths, strict=True))
    prompt = (
        f"An event begins on {_written(start.date())} at {start:%H:%M}. The parts follow each other without a pause:\n"
        f"{listed}\nWrite one paragraph for the guests. State at what time each part begins and ends, when the event "
        "ends, how many minutes it takes in all, and the date one week later, on which the photographs will be sent."
    )
    photos = start.date() + timedelta(days=7)
    facts = {"times": times, "total": sum(lengths), "date": start.date().isoformat(), "photos": photos.isoformat()}
    return prompt, facts


def _doses(draw: random.Random) -> tuple[str, dict[str, Any]]:
    weight = draw.choice([12, 16, 18, 20, 24, 25, 30, 40, 50, 60])
    names = draw.sample(MEDICINES.split(), 4)
    per = [draw.choice([2, 3, 4, 5, 6, 8, 10, 15]) for _ in names]
    times = [draw.choice([1, 2, 3, 4]) for _ in names]
    days = [draw.choice([3, 5, 7, 10, 14]) for _ in names]
    start = _day(draw)
    chosen = draw.sample(range(4), 2)
    table = "".join(f"| {names[k]} | {per[k]} | {times[k]} | {days[k]} |\n" for k in range(4))
    prompt = (
        "Doses (fictitious medicines):\n| medicine | mg per kg and dose | doses per day | days |\n|---|---|---|---|\n"
        f"{table}\nA patient weighs {weight} kg and takes {names[chosen[0]]} and {names[chosen[1]]} from "
        f"{_written(start)} on. Write one paragraph of instructions for the patient. For each of the two medicines, "
        "state the single dose in mg, the doses per day, the total mg per day, the number of days and the date of the "
        "last day."
    )
    facts = {
        names[k]: {
            "dose": per[k] * weight,
            "times": times[k],
            "daily": per[k] * weight * times[k],
            "days": days[k],
            "last": (start + timedelta(days=days[k] - 1)).isoformat(),
        }
        for k in chosen
    }
    return prompt, {"drugs": facts}


ENTITIES = 50
"""Number of countries, and of elements."""

OTHER_PLACES = {
    "russia": "RUS", "syria": "SYR", "iran": "IRN", "laos": "LAO", "vietnam": "VNM", "turkey": "TUR", "bolivia": "BOL",
    "venezuela": "VEN", "tanzania": "TZA", "south korea": "KOR", "north korea": "PRK", "moldova": "MDA",
    "brunei": "BRN", "taiwan": "TWN", "ivory coast": "CIV", "burma": "MMR", "congo": "COG", "palestine": "PSE",
    "republic of the congo": "COG", "democratic republic of the congo": "COD", "democratic republic of congo": "COD",
    "czech republic": "CZE", "macedonia": "MKD", "kosovo": "UNK", "swaziland": "SWZ", "united states": "USA",
    "united states of america": "USA", "usa": "USA", "united kingdom": "GBR", "gambia": "GMB", "cape verde": "CPV",
}  # fmt: skip
"""Names of countries that pycountry does not know."""

OTHER_LANGUAGES = {"Serbia": "serbian", "Philippines": "filipino"}
OTHER_CURRENCIES = {"Bulgaria": "bulgarian lev", "Croatia": "croatian kuna"}
"""Values that are also right: gaps of countryinfo, and currencies before the euro."""


def _knowledge() -> list[FactPrompt]:
    """Return prompts about countries and elements in turn; every second pair is held out."""
    import countryinfo
    import mendeleev

    warnings.filterwarnings("ignore", module="mendeleev")
    needed = ("capital", "currencies", "languages", "callingCodes", "area", "tld")
    countries = [country.info() for country in countryinfo.all_countries()]
    countries = [each for each in countries if each.get("population", 0) > 1_500_000 and all(map(each.get, needed))]
    countries.sort(key=lambda each: str(each["name"]))
    numbers = [*range(3, 104)]
    random.Random(59).shuffle(countries)
    random.Random(59).shuffle(numbers)
    pairs = zip(countries[:ENTITIES], map(mendeleev.element, numbers[:ENTITIES]), strict=True)
    return [prompt for k, (country, element) in enumerate(pairs) for prompt in _pair(country, element, k % 2 == 1)]


def _pair(country: dict[str, Any], element: Any, held_out: bool) -> Iterator[FactPrompt]:
    name = country["name"]
    facts = _country_facts(country)
    yield FactPrompt(f"country/{name}", COUNTRY.format(name), facts, held_out, _country_sentences(country, facts))
    facts = {
        "symbol": element.symbol, "number": element.atomic_number, "weight": element.atomic_weight,
        "group": element.group_id, "period": element.period, "block": element.block, "year": element.discovery_year,
        "melting": element.melting_point, "discoverers": _last_names(element.discoverers or ""),
    }  # fmt: skip
    sentences = _element_sentences(element, facts)
    yield FactPrompt(f"element/{element.name}", ELEMENT.format(element.name), facts, held_out, sentences)


def _last_names(discoverers: str) -> list[str]:
    if re.search("ancient|Labor|Argonne|Institute", discoverers):
        return []
    return [plain(each).split()[-1] for each in re.split(r",|;| and ", discoverers) if plain(each)]


def _country_facts(country: dict[str, Any]) -> dict[str, Any]:
    import pycountry

    places = {plain(each.name): each.alpha_3 for each in pycountry.countries}
    places |= {plain(each.common_name): each.alpha_3 for each in pycountry.countries if hasattr(each, "common_name")}
    languages = [pycountry.languages.get(alpha_2=code) for code in country["languages"]]
    currencies = [pycountry.currencies.get(alpha_3=code) for code in country["currencies"]]
    name, region = country["name"], country["region"].lower().removesuffix("s")
    continents = {region, f"{region}s", f"{region}n", f"{region}an", f"{region.rstrip('e')}an"}
    continents |= {"oceania": {"australia", "pacific"}, "america": {"caribbean"}}.get(region, set())
    return {
        "name": name,
        "other_names": country["altSpellings"],
        "demonym": country["demonym"] or "",
        "capital": country["capital"],
        "languages": {word for each in languages if each for word in plain(each.name).split()}
        | {OTHER_LANGUAGES.get(name, "")},
        "currencies": [plain(each.name) for each in currencies if each]
        + [plain(code) for code in country["currencies"]]
        + [OTHER_CURRENCIES.get(name, "")],
        "continents": continents,
        "subregion": plain(country["subregion"]),
        "calling_codes": country["callingCodes"],
        "domains": country["tld"],
        "area": country["area"],
        "borders": country["borders"],
        "places": places | OTHER_PLACES,
    }


def _country_sentences(country: dict[str, Any], facts: dict[str, Any]) -> dict[str, str]:
    """Return sentences for the passage of a question, which state the values in other words than answers do."""
    name = country["name"]
    names = {code: place.title() for place, code in facts["places"].items()}
    borders = [names[code] for code in country["borders"] if code in names][:3]
    continent = country["region"]
    if continent == "Americas":
        continent = "South America" if "South" in country["subregion"] else "North America"
    sentences = {
        "capital": f"The seat of government of {name} is {country['capital']}.",
        "language": f"People in {name} officially speak {' or '.join(sorted(facts['languages'] - {''})).title()}.",
        "currency": f"One pays with the {facts['currencies'][0].title()} there.",
        "continent": f"{name} is part of {continent}.",
        "calling code": f"Phone numbers of {name} begin with +{country['callingCodes'][0]}.",
        "domain": f"Web sites of {name} end in {country['tld'][0]}.",
        "area": f"Its surface covers {country['area']:,.0f} square kilometres.",
    }
    return sentences | ({"border": f"It shares a frontier with {', '.join(borders)}."} if borders else {})


def _element_sentences(element: Any, facts: dict[str, Any]) -> dict[str, str]:
    sentences = {
        "symbol": f"Chemists write {element.name} as {element.symbol}.",
        "number": f"Its nucleus has {element.atomic_number} protons.",
        "weight": f"One mole of it weighs {element.atomic_weight} g.",
        "period": f"It stands in row {element.period} of the periodic table.",
        "block": f"It is one of the {element.block}-block elements.",
        "group": f"It stands in column {element.group_id} of the table." if element.group_id else "",
        "year": f"It was found in {element.discovery_year}." if element.discovery_year else "",
        "discoverer": f"It was found by {element.discoverers}." if facts["discoverers"] else "",
        "melting point": f"It melts at {facts['melting'] - 273.15:.1f} °C." if facts["melting"] else "",
    }
    return {attribute: sentence for attribute, sentence in sentences.items() if sentence}
