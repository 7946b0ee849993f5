"""The settings file's JSON Schema, from docs/reference/settings.md, which the binary prints."""

import re

from .paths import REFERENCE

SECTION = re.compile(r"^## `\[(?P<name>[a-z_.]+)\]`$")
ROW = re.compile(
    r"^\| `(?P<key>[a-z_]+)` \| (?P<type>[^|]+) \| (?P<default>[^|]+) \| (?P<help>.*?) \| `MAILRAIL__[A-Z_]+` \|$"
)

TYPES = {
    "text": {"type": "string"},
    "integer": {"type": "integer", "minimum": 0},
    "number": {"type": "number", "minimum": 0},
    "boolean": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "duration": {"type": "string", "pattern": "^[0-9].*$"},
    "size": {"type": ["integer", "string"]},
    "table of texts": {"type": "object", "additionalProperties": {"type": "string"}},
}


def table():
    return {"type": "object", "additionalProperties": False, "properties": {}}


def keys():
    """(section, key, type) of every setting."""
    section = ""
    for line in (REFERENCE / "settings.md").read_text().splitlines():
        if line == "## Top of the file":
            section = ""
        elif found := SECTION.match(line):
            section = found["name"]
        elif found := ROW.match(line):
            yield section, found["key"], found["type"].strip()


def schema():
    """Sections nested, unknown keys refused."""
    whole, count = table(), 0
    for section, key, kind in keys():
        at = whole
        for part in filter(None, section.split(".")):
            at = at["properties"].setdefault(part, table())
        words = re.fullmatch(r"`[^`]+`( or `[^`]+`)+", kind)
        at["properties"][key] = {"enum": re.findall(r"`([^`]+)`", kind)} if words else dict(TYPES[kind])
        count += 1
    if count < 20:
        raise RuntimeError(
            f"docs/reference/settings.md has {count} settings: its format is not the one that is read here"
        )
    return whole
