"""Dates, timestamps and intervals read from text as PostgreSQL reads them (DateStyle ISO, MDY; zone UTC).

`timestamp` ignores a zone in the text and `timestamptz` takes it into account; `date` ignores the time.
Years are 1 to 9999. What depends on the clock ('now', 'today') is refused: write now() instead.

    >>> parse_timestamptz("2020-01-02 03:04+02")
    datetime.datetime(2020, 1, 2, 1, 4, tzinfo=datetime.timezone.utc)
    >>> parse_interval("1 year 2 days 03:00")
    (12, 2, 10800000000)
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from fractions import Fraction
from zoneinfo import ZoneInfo

from midstream.errors import DataError

_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_MONTH = r"(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?"
_DATES = (
    r"(?P<year>\d{4,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})",
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
    rf"{_MONTH}[\s-]*(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[\s,-]+(?P<year>\d{{4}})",
    rf"(?P<day>\d{{1,2}})[\s-]*{_MONTH}[\s,-]*(?P<year>\d{{4}})",
    rf"(?P<year>\d{{4}})[\s-]*{_MONTH}[\s-]*(?P<day>\d{{1,2}})",
)
_TIME = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?P<fraction>\.\d*)?)?\s*(?P<half>[ap]m(?![a-z]))?"
)
_ZONE = r"(?P<zone>z|utc|gmt|zulu|[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?|[a-z_]+/[a-z_/+-]+\d*)"
_OFFSET = re.compile(r"[+-](\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_MOMENTS = tuple(
    re.compile(rf"\s*{written}(?:(?:\s*t\s*|\s+){_TIME}\s*{_ZONE}?)?\s*", re.IGNORECASE) for written in _DATES
)
_ISO = re.compile(
    r"\s*(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?)?\s*", re.ASCII | re.IGNORECASE
)
_CLOCK_WORDS = {
    "now": "now()",
    "today": "current_date",
    "tomorrow": "current_date + 1",
    "yesterday": "current_date - 1",
}
_LARGEST_ZONE = timedelta(hours=16)


def parse_date(text: str) -> date:
    return _moment(text, "date")[0].date()


def parse_timestamp(text: str) -> datetime:
    return _moment(text, "timestamp")[0]


def parse_timestamptz(text: str) -> datetime:
    moment, zone = _moment(text, "timestamptz")
    try:
        return _in_zone(moment, zone, text).astimezone(timezone.utc)
    except OverflowError:
        raise _out_of_range(text) from None


def _moment(text: str, type: str) -> tuple[datetime, str | None]:
    iso = _ISO.fullmatch(text)
    if iso is not None:
        try:
            return _iso_moment(*iso.groups()), None
        except ValueError:
            pass  # the long way says what is wrong, and knows 24:00:00
    for form in _MOMENTS:
        if (match := form.fullmatch(text)) is not None:
            return _checked_moment(match, text), match["zone"]
    word = text.strip().lower()
    if word == "epoch":
        return datetime(1970, 1, 1), None
    raise _not_a_moment(word, text, type)


def _iso_moment(
    year: str, month: str, day: str, hour: str | None, minute: str, second: str, fraction: str | None
) -> datetime:
    if hour is None:
        return datetime(int(year), int(month), int(day))
    microsecond = int(fraction.ljust(6, "0")) if fraction else 0
    return datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), microsecond)


def _checked_moment(match: re.Match[str], text: str) -> datetime:
    parts = match.groupdict()
    month = _MONTHS[parts["name"].lower()[:3]] if parts.get("name") else int(parts["month"])
    try:
        day = datetime(int(parts["year"]), month, int(parts["day"]))
        return day + _time_of_day(parts, text)
    except (ValueError, OverflowError):
        raise _out_of_range(text) from None


def _time_of_day(parts: dict[str, str | None], text: str) -> timedelta:
    if parts["hour"] is None:
        return timedelta()
    hour, minute, second = int(parts["hour"]), int(parts["minute"] or 0), int(parts["second"] or 0)
    if parts["half"]:
        if not 1 <= hour <= 12:
            raise _out_of_range(text)
        hour = hour % 12 + (12 if parts["half"].lower() == "pm" else 0)
    microseconds = round(Fraction("0" + parts["fraction"]) * 1_000_000) if parts["fraction"] not in (None, ".") else 0
    time = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=microseconds)
    if minute > 59 or second > 60 or time > timedelta(hours=24):
        raise _out_of_range(text)
    return time


def _in_zone(moment: datetime, zone: str | None, text: str) -> datetime:
    if zone is None or zone.lower() in ("z", "utc", "gmt", "zulu"):
        return moment.replace(tzinfo=timezone.utc)
    if zone[0] not in "+-":
        return moment.replace(tzinfo=_named_zone(zone))
    match = _OFFSET.fullmatch(zone)
    assert match is not None
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or offset >= _LARGEST_ZONE:
        raise DataError(f'time zone displacement out of range: "{text}"', sqlstate="22009")
    return moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))


def _named_zone(name: str) -> ZoneInfo:
    written = "/".join("_".join(word.capitalize() for word in part.split("_")) for part in name.split("/"))
    for spelling in (name, written):
        try:
            return ZoneInfo(spelling)
        except (ValueError, OSError, KeyError):
            continue
    raise DataError(f'time zone "{name}" not recognized', sqlstate="22023")


def _not_a_moment(word: str, text: str, type: str) -> DataError:
    if word in _CLOCK_WORDS:
        return DataError(
            f'"{word}" depends on the clock and is not read as a {type}',
            hint=f"Write {_CLOCK_WORDS[word]} without quotes.",
            sqlstate="22007",
        )
    if word in ("infinity", "-infinity", "+infinity"):
        return DataError(f'"{word}" cannot be stored in a {type}', hint="Use NULL for no limit.", sqlstate="22008")
    if re.fullmatch(r"\d{4,}-\d+-\d+( bc)?", word):
        return _out_of_range(text)
    return DataError(f'invalid input syntax for type {type}: "{text}"', sqlstate="22007")


def _out_of_range(text: str) -> DataError:
    return DataError(f'date/time field value out of range: "{text}"', sqlstate="22008")


# --- intervals -------------------------------------------------------------------------------------

Interval = tuple[int, int, int]
"""Months, days, microseconds: a month has no fixed days, a day no fixed hours."""

_DAY = 86_400_000_000
_IN_MONTHS = {"mon": 1, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
_IN_DAYS = {"day": 1, "week": 7}
_IN_MICROSECONDS = {"us": 1, "ms": 1000, "sec": 1_000_000, "min": 60_000_000, "hour": 3_600_000_000}
_UNIT_NAMES = {
    "us": "us usec usecs microsecond microseconds microsecon",
    "ms": "ms msec msecs millisecond milliseconds mseconds msecond",
    "sec": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "d day days",
    "week": "w week weeks",
    "mon": "mon mons month months",
    "year": "y yr yrs year years",
    "decade": "dec decs decade decades",
    "century": "c cent century centuries",
    "millennium": "mil mils millennium millennia",
}
_UNITS = {name: unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
_TOKEN = re.compile(
    r"(?P<years>[+-]?\d+)-(?P<months>\d+)(?![\d:])"
    r"|(?P<sign>[+-]?)(?P<hour>\d+):(?P<minute>\d+)(?::(?P<second>\d+(?:\.\d*)?))?"
    r"|(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))\s*(?P<unit>[a-z]+)?"
    r"|(?P<ago>ago)"
)
_ISO_INTERVAL = re.compile(r"(-?)P(?=.)((?:[+-]?\d+(?:\.\d+)?[YMWD])*)(?:T((?:[+-]?\d+(?:\.\d+)?[HMS])+))?")
_ISO_PART = re.compile(r"([+-]?\d+(?:\.\d+)?)([YMWDHS])")
_ISO_DATE_UNITS = {"Y": "year", "M": "mon", "W": "week", "D": "day"}
_ISO_TIME_UNITS = {"H": "hour", "M": "min", "S": "sec"}


def parse_interval(text: str) -> Interval:
    written = text.strip()
    iso = _ISO_INTERVAL.fullmatch(written)
    amounts = _iso_amounts(iso) if iso else _written_amounts(written.lower().removeprefix("@").strip(), text)
    months, days, microseconds = _total(amounts)
    if not (abs(months) < 2**31 and abs(days) < 2**31 and abs(microseconds) < 2**63):
        raise DataError(f'interval field value out of range: "{text}"', sqlstate="22015")
    return months, days, microseconds


Amount = tuple[Fraction, str]


def _iso_amounts(match: re.Match[str]) -> list[Amount]:
    sign = -1 if match[1] else 1
    amounts = [(sign * Fraction(n), _ISO_DATE_UNITS[unit]) for n, unit in _ISO_PART.findall(match[2])]
    return amounts + [(sign * Fraction(n), _ISO_TIME_UNITS[unit]) for n, unit in _ISO_PART.findall(match[3] or "")]


def _written_amounts(written: str, text: str) -> list[Amount]:
    amounts: list[Amount] = []
    position, sign = 0, 1
    while position < len(written):
        match = _TOKEN.match(written, position)
        if match is None or sign < 0:
            raise _not_an_interval(text)
        if match["ago"]:
            sign = -1
        else:
            amounts += _amounts_of(match, is_last=match.end() == len(written), text=text)
        position = match.end()
        while position < len(written) and written[position] in " ,\t\n":
            position += 1
    if not amounts:
        raise _not_an_interval(text)
    return [(sign * number, unit) for number, unit in amounts]


def _amounts_of(token: re.Match[str], is_last: bool, text: str) -> list[Amount]:
    if token["years"]:
        years = Fraction(token["years"])
        months = Fraction(token["months"]) * (-1 if token["years"].startswith("-") else 1)
        return [(years, "year"), (months, "mon")]
    if token["hour"]:
        sign = -1 if token["sign"] == "-" else 1
        clock = ((token["hour"], "hour"), (token["minute"], "min"), ((token["second"] or "0").rstrip("."), "sec"))
        if int(token["minute"]) > 59 or Fraction(clock[2][0]) >= 60:
            raise DataError(f'interval field value out of range: "{text}"', sqlstate="22015")
        return [(sign * Fraction(number), unit) for number, unit in clock]
    number = Fraction(token["number"].rstrip("."))
    if token["unit"] is None:
        # '3 04:05' is days and a time; a number at the end is seconds.
        return [(number, "sec" if is_last else "day")]
    if token["unit"] not in _UNITS:
        raise _not_an_interval(text)
    return [(number, _UNITS[token["unit"]])]


def _total(amounts: list[Amount]) -> Interval:
    """Fractions flow down: of a year to months, of a month to days of 30, of a day to hours of 24."""
    months = days = 0
    microseconds = Fraction(0)
    for number, unit in amounts:
        if unit in _IN_MONTHS:
            in_months = number * _IN_MONTHS[unit]
            if unit != "mon":
                months += round(in_months)
                continue
            months += int(in_months)
            number, unit = (in_months - int(in_months)) * 30, "day"
        if unit in _IN_DAYS:
            in_days = number * _IN_DAYS[unit]
            days += int(in_days)
            microseconds += (in_days - int(in_days)) * _DAY
        else:
            microseconds += number * _IN_MICROSECONDS[unit]
    return months, days, round(microseconds)


def _not_an_interval(text: str) -> DataError:
    return DataError(f'invalid input syntax for type interval: "{text}"', sqlstate="22007")
