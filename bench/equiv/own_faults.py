"""Seeded faults: edits of the text of a program that leave it well-formed as a rule, and change what it computes as a rule."""

import re

import own_heaps

UNARY = ["relu", "exp", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "abs", "negative", "square", "sin", "cos", "erf", "floor", "ceil", "round",
         "gelu", "silu", "sign", "logical_not", "isnan", "isinf", "isfinite", "softmax", "log_softmax"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "floor_divide", "mod", "logical_and", "logical_or",
          "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "atan2", "log_add_exp"]
COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
REDUCTIONS = ["sum", "mean", "max", "min", "prod", "argmax", "argmin", "cumsum", "cumprod"]
INFIX = ["+", "-", "*", "/", "//", "%"]
RELATIONS = ["<", "<=", ">", ">=", "==", "!="]
DTYPES = ["f16", "f32", "f64", "i32", "i64"]


def named(names):
    """Calls of one of these functions, for another one of them."""
    pattern = re.compile(rf"(?<![\w.\"])({'|'.join(names)})\((?!\w+: )")
    return pattern, lambda found, random: random.choice([name for name in names if name != found[1]]) + "("


def written(words, pattern):
    """One of these words between the parts of a pattern, for another one."""
    words_or = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    compiled = re.compile(pattern.replace("WORD", f"({words_or})"))
    return compiled, lambda found, random: found[0].replace(found[1], random.choice([word for word in words if word != found[1]]), 1)


def items(text):
    """The items of a list without nested commas in brackets."""
    found, depth, begin = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            found.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return found + ([last] if last else [])


def exchanged(found, random):
    """Two different items of a list exchanged."""
    own = items(found[2])
    places = [(a, b) for a in range(len(own)) for b in range(a) if own[a] != own[b]]
    if not places:
        return None
    a, b = random.choice(places)
    own[a], own[b] = own[b], own[a]
    return f"{found[1]}{', '.join(own)}{found[3]}"


def dropped(found, random):
    own = items(found[2])
    if len(own) < 2:
        return None
    del own[random.randrange(len(own))]
    return f"{found[1]}{', '.join(own)}{found[3]}"


def other_float(found, random):
    value = float(found[0])
    changed = random.choice([value + 1.0, value * 2.0, -value, value * 1.0000002, 0.0, 1.0])
    return None if repr(changed) == repr(value) else repr(changed)


def moved(found, random):
    """An integer one more or one less."""
    return f"{found[1]}{int(found[2]) + random.choice([-1, 1])}"


def extent(found, random):
    """One of the extents of a loop one less or one more."""
    own = items(found[2])
    at = random.randrange(len(own))
    own[at] = f"{own[at]} {random.choice('+-')} 1"
    return f"{found[1]}{', '.join(own)}{found[3]}"


def shifted(found, random):
    """One index of an access shifted."""
    return extent(found, random)


#: Edits of one place: the kind, what is looked for, and what stands there then.
EDITS = {
    "another operator of one operand": named(UNARY),
    "another operator of two operands": named(BINARY),
    "another comparison": named(COMPARISONS),
    "another reduction": named(REDUCTIONS),
    "another infix operator": written(INFIX, r"(?<=[\w\])]) WORD (?=[\w(-])"),
    "another relation": written(RELATIONS, r"(?<=[\w\])]) WORD (?=[\w(-])"),
    "operands exchanged": (re.compile(r"((?<![\w.])\w[\w.]*\()(\w+, \w+)(\)|, \w+=)"), exchanged),
    "arguments exchanged": (re.compile(r"(call_tir\(\s*\w+,\s*\[)([^\]]*)(\])"), exchanged),
    "another axis": (re.compile(r"(\baxis=)(-?\d+)\b"), moved),
    "axes permuted": (re.compile(r"(\baxes=\[)([-\d, ]+)(\])"), exchanged),
    "indices permuted": (re.compile(r"((?<=\w)\[)([^\[\]\"=]*,[^\[\]\"=]*)(\])"), exchanged),
    "index shifted": (re.compile(r"((?<=\w)\[)([^\[\]\"=]+)(\])"), shifted),
    "loop extent off by one": (re.compile(r"(\b(?:grid|range|parallel|vectorized|serial)\()([^()\n]+)(\):)"), extent),
    "dropped operand of concat": (re.compile(r"(\bconcat\(\s*\[)([^\]]*)(\])"), dropped),
    "exchanged operands of concat": (re.compile(r"(\bconcat\(\s*\[)([^\]]*)(\])"), exchanged),
    "another float": (re.compile(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?(?![\w.])"), other_float),
    "integer off by one": (re.compile(r"(?<=[^\w.\"])()(\d+)(?![\w.\"])"), moved),
    "another infinity": (re.compile(r"-inf\b|\binf\b"), lambda found, random: "inf" if found[0] == "-inf" else "-inf"),
    "another dtype of a cast": written(DTYPES, r"(?<=, )\"WORD\"(?=\))"),
    "another truth value": (re.compile(r"\b(True|False)\b"), lambda found, random: "False" if found[1] == "True" else "True"),
    "accumulation becomes a store": (re.compile(r" (\+=|\*=|max=|min=) "), lambda found, random: " = "),
}

BINDING = re.compile(r"^( +)(\w+)(?:: .+?)? = (\S.*)$")
STORE = re.compile(r"^ +\w+\[.*\] \S*= ")
CHECK = re.compile(r"^ +.*\b(?:match_cast|assert_op|builtin\.check\w*|builtin\.match_shape)\(.*\)$")
RETURN = re.compile(r"^( +return )(\w+)$")


def body_lines(lines, pattern):
    """Numbers of the lines of bodies that match."""
    return [at for at, line in enumerate(lines) if line.startswith(" ") and pattern.search(line)]


def variables(lines, at):
    """Variables bound before a line in the same definition, parameters included."""
    found = []
    for line in reversed(lines[:at]):
        bound = BINDING.match(line)
        if bound:
            found.append(bound[2])
        elif line.startswith("def "):
            return found + re.findall(r"(\w+): (?:Tensor|Buffer)", line)
    return found


def removed_line(pattern):
    """A line removed."""
    def edit(text, random):
        lines = text.split("\n")
        places = body_lines(lines, pattern)
        if not places:
            return None
        del lines[random.choice(places)]
        return "\n".join(lines)
    return edit


def removed_epilogue(text, random):
    """A call of an operator becomes another name of one of its operands."""
    lines = text.split("\n")
    places = [at for at in body_lines(lines, BINDING) if re.search(r" = \w[\w.]*\(.*\)$", lines[at])]
    if not places:
        return None
    at = random.choice(places)
    indent, name, call = BINDING.match(lines[at]).groups()
    known = set(variables(lines, at))
    operands = [word for word in re.findall(r"\b\w+\b", call.split("(", 1)[1]) if word in known]
    if not operands:
        return None
    lines[at] = f"{indent}{name} = {random.choice(operands)}"
    return "\n".join(lines)


def other_variable(pattern):
    """In a line, a variable becomes another one that is bound before it."""
    def edit(text, random):
        lines = text.split("\n")
        places = body_lines(lines, pattern)
        if not places:
            return None
        at = random.choice(places)
        known = sorted(set(variables(lines, at)))
        begin = lines[at].find("return ") if pattern is RETURN else lines[at].find(" = ")
        used = [found for found in re.finditer(r"(?<![\w.\"])\w+\b(?!\()", lines[at]) if found.start() > begin and found[0] in known]
        if not used or len(known) < 2:
            return None
        found = random.choice(used)
        other = random.choice([name for name in known if name != found[0]])
        lines[at] = lines[at][:found.start()] + other + lines[at][found.end():]
        return "\n".join(lines)
    return edit


def branches_exchanged(text, random):
    """The values of two branches of one variable exchanged."""
    found = list(re.finditer(r"^( +)if (.*):\n\1    (\S.*)\n\1else:\n\1    (\S.*)\n", text, re.M))
    found = [each for each in found if each[3] != each[4]]
    if not found:
        return None
    one = random.choice(found)
    indent = one[1]
    swapped = f"{indent}if {one[2]}:\n{indent}    {one[4]}\n{indent}else:\n{indent}    {one[3]}\n"
    return text[:one.start()] + swapped + text[one.end():]


#: Edits of whole lines.
LINES = {
    "removed operator": removed_epilogue,
    "removed store": removed_line(STORE),
    "removed check": removed_line(CHECK),
    "another variable": other_variable(BINDING),
    "another variable in a store": other_variable(STORE),
    "another result": other_variable(RETURN),
    "branches exchanged": branches_exchanged,
    **own_heaps.KINDS,
}
KINDS = [*EDITS, *LINES]


def is_signature(text, at):
    begin = text.rfind("\n", 0, at) + 1
    return text[begin:begin + 1] not in (" ", "\n")


def faulty(text, kind, random):
    """The text with one fault of a kind; nothing where it has no place for one."""
    if kind in LINES:
        return LINES[kind](text, random)
    pattern, edit = EDITS[kind]
    places = [found for found in pattern.finditer(text) if not is_signature(text, found.start())]
    if not places:
        return None
    found = random.choice(places)
    there = edit(found, random)
    return None if there is None or there == found[0] else text[:found.start()] + there + text[found.end():]
