#!/usr/bin/env python3
"""Compares events with the tables of docs/events.md: every event and field must be there, and none
may be missing.

Usage: events.py DOCS_EVENTS_MD EVENT_LOG...      names each event that differs and exits 1
"""

import json
import re
import sys

COMMON = ["time_ns", "rank", "trace_id", "level", "category", "event"]


def read_schema(path):
    schema = {}
    for line in open(path, encoding="utf-8"):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 4 or cells[0] not in ("graph", "compile", "run"):
            continue
        category, level, name, fields = cells
        before_words = re.sub(r"\([^)]*\)", "", fields).split(":")[0]
        schema[name.strip("`")] = (category, level, re.findall(r"`(\w+)`", before_words))
    return schema


def faults_of(line, schema):
    event = json.loads(line)
    name = event.get("event")
    if name not in schema:
        return [f"event '{name}' is not in the tables"]
    category, level, fields = schema[name]
    faults = []
    if (event["category"], event["level"]) != (category, level):
        faults.append(f"'{name}' is {event['category']}/{event['level']}, not {category}/{level}")
    if list(event) != COMMON + fields:
        faults.append(f"'{name}' has {list(event)[len(COMMON):]}, the tables say {fields}")
    return faults


def main(schema_path, *logs):
    schema = read_schema(schema_path)
    faults, seen = set(), set()
    for log in logs:
        for line in open(log, encoding="utf-8"):
            faults.update(faults_of(line, schema))
            seen.add(json.loads(line)["event"])
    for fault in sorted(faults):
        print(fault)
    print(f"{len(schema)} kinds of events in the tables, seen: {', '.join(sorted(seen))}")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
