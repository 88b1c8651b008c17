"""Seeded faults of checks and dims in a heap, as the last phases have them: a check left out or moved, another slot, rank, dtype, bound or value."""

import re

#: Texts of the last phases have it.
ALLOC = "builtin.alloc_shape_heap("
DTYPES = ["f32", "f64", "f16", "i32", "i64", "bool", "u8"]
OPERATIONS = ["+", "-", "*", "//", "%", "min", "max", "ceildiv"]
BOUNDS = ["lower_bound", "upper_bound", "multiple_of"]
CHECKS = ("check_kind", "match_shape", "check_bound", "check_extent")


def calls(text, names):
    """Calls of these built-ins, each of one statement."""
    pattern = rf"^( +)(?:\w+ = )?builtin\.(?:{'|'.join(names)})\((?:.*\)|\n(?:\1    .*\n)+\1\))\n"
    return list(re.finditer(pattern, text, re.M))


def places_in(call, pattern):
    """Places of a pattern in a call, without those in messages."""
    texts = [found.span() for found in re.finditer(r'"(?:[^"\\]|\\.)*"', call[0])]
    for found in re.finditer(pattern, call[0]):
        if not any(begin < found.start() and found.end() < end for begin, end in texts):
            yield found


def within(names, pattern, edit):
    """An edit of one place in a call of these built-ins."""

    def broken(text, random):
        places = [(call, found) for call in calls(text, names) for found in places_in(call, pattern)]
        if not places:
            return None
        call, found = random.choice(places)
        there = edit(found, random, text)
        if there is None:
            return None
        begin = call.start() + found.start()
        return text[:begin] + there + text[begin + len(found[0]):]

    return broken


def one_of(words):
    return lambda found, random, text: found[1] + random.choice([word for word in words if word != found[2]]) + found[3]


def other_integer(found, random, text):
    return found[1] + str(int(found[2]) + random.choice([-1, 1])) + found[3]


def other_slot(found, random, text):
    """Another slot that the text names somewhere."""
    slots = sorted(set(re.findall(r'\("(?:store|slot)", (\d+)\)', text)) - {found[2]})
    return found[1] + random.choice(slots) + found[3] if slots else None


def other_value(found, random, text):
    """Another variable that is checked somewhere."""
    names = sorted(set(re.findall(r"builtin\.(?:check_kind|match_shape)\(\s*(\w+),", text)) - {found[2]})
    return found[1] + random.choice(names) + found[3] if names else None


def removed(text, random):
    places = calls(text, CHECKS)
    if not places:
        return None
    call = random.choice(places)
    return text[:call.start()] + text[call.end():]


def moved(text, random):
    """A call behind the one after it."""
    own = calls(text, [r"\w+"])
    places = [(a, b) for a, b in zip(own, own[1:]) if a.end() == b.start()]
    if not places:
        return None
    first, second = random.choice(places)
    return text[:first.start()] + second[0] + first[0] + text[second.end():]


def exchanged(text, random):
    """Two codes of dims of one call exchanged."""
    code = r'(?:\("\w+", \d+\)|None|-?\d+)'
    places = [(call, found) for call in calls(text, ["match_shape", "make_shape"])
              for found in places_in(call, rf"({code}), ({code})") if found[1] != found[2]]
    if not places:
        return None
    call, found = random.choice(places)
    begin = call.start() + found.start()
    return text[:begin] + f"{found[2]}, {found[1]}" + text[begin + len(found[0]):]


#: Edits of the whole text.
KINDS = {
    "removed check of the last phases": removed,
    "built-ins in another order": moved,
    "codes of dims exchanged": exchanged,
    "another slot": within([r"\w+"], r'(\("(?:store|slot)", )(\d+)(\))', other_slot),
    "another slot of a dim": within(["compute_dim", "load_dim", "check_bound", "check_extent"], r"(\(\s*\w+,\s*)(\d+)()", other_integer),
    "a store compares": within(["match_shape"], r'()"(store)"()', lambda found, random, text: '"slot"'),
    "a comparison stores": within(["match_shape"], r'()"(slot)"()', lambda found, random, text: '"store"'),
    "a dim is not compared": within(["match_shape"], r'\("slot", \d+\)|(?<=[(\s])(?<!", )-?\d+(?=[,)])', lambda found, random, text: "None"),
    "a dim is compared with an integer": within(["match_shape"], r'\("slot", \d+\)|None(?=[,)])', lambda found, random, text: str(random.randrange(4))),
    "another rank of a check": within(["check_kind"], r"((?:size=|\",\s+))(\d+)(,)", other_integer),
    "another dtype of a check": within(["check_kind"], rf'(")({"|".join(DTYPES)})(")', one_of(DTYPES)),
    "no dtype of a check": within(["check_kind"], rf'"(?:{"|".join(DTYPES)})"', lambda found, random, text: "None"),
    "another operation on dims": within(["compute_dim"], r'(,\s+")([^"\w]+|min|max|ceildiv)(",)', one_of(OPERATIONS)),
    "another operand of a dim": within(["compute_dim"], r"(?<!\")(, )(-?\d+)([,)])", other_integer),
    "another bound": within(["check_bound"], r"(\",\s+)(-?\d+)(,|\))", other_integer),
    "another kind of bound": within(["check_bound"], rf'(")({"|".join(BOUNDS)})(")', one_of(BOUNDS)),
    "another value is checked": within(["check_kind", "match_shape"], r"(builtin\.\w+\(\s*)(\w+)(,)", other_value),
}
