"""Count the tasks in JSON from standard input: objects with a subject and a procedure."""

import json
import sys


def tasks(value):
    if isinstance(value, dict):
        if "subject" in value and "procedure" in value:
            return 1
        return sum(tasks(item) for item in value.values())
    if isinstance(value, list):
        return sum(tasks(item) for item in value)
    return 0


print(tasks(json.load(sys.stdin)))
