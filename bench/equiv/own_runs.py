"""Runs of two texts on inputs that fit the signature and on inputs that violate it: another dim, rank or dtype.

`relax diff` draws inputs of the annotations of parameters. A text of the last phases has none, and its checks show in inputs that they refuse.
"""

import ast
import math
import random
import re
import subprocess

import judge
import own_pairs

#: Runs for each function, and elements of one input.
CASES, ELEMENTS = 12, 2_000
#: Drawn extents, and dtypes of wrong inputs.
EXTENTS, WRONG = (0, 1, 2, 3, 4), ("f32", "f64", "i32", "bool")
#: The dtype of inputs that are shapes.
SHAPE = "shape"
INTEGERS = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")


def annotation(node):
    """Dims as texts and the dtype of `Tensor((...), "dtype")`, or `shape` for `Shape([...])`; nothing for another annotation."""
    name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
    if name == "Tensor" and len(node.args) == 2:
        dims, dtype = node.args
    elif name == "Shape" and len(node.args) == 1:
        dims, dtype = node.args[0], ast.Constant(SHAPE)
    else:
        return None
    if isinstance(dims, (ast.Tuple, ast.List)) and isinstance(dtype, ast.Constant):
        return [str(dim.value) if isinstance(dim, ast.Constant) else ast.unparse(dim) for dim in dims.elts], dtype.value
    return None


def checked(function):
    """What the messages of checks say of parameters, by their names."""
    found = {}
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        texts = [one.value for one in [*call.args, *(word.value for word in call.keywords)] if isinstance(one, ast.Constant)]
        about = next((text for text in texts if isinstance(text, str) and text.startswith("parameter `")), None)
        if about and ast.unparse(call.func) == "builtin.check_kind" and texts[-1] != about:
            try:
                found.setdefault(about.split("`")[1], annotation(ast.parse(texts[-1]).body[0].value))
            except (SyntaxError, IndexError):
                pass
    return found


def signatures(text):
    """Functions with parameters that are tensors of known rank and dtype, or shapes of known rank."""
    for function in ast.parse(text).body:
        if isinstance(function, ast.FunctionDef) and not function.decorator_list:
            told = checked(function)
            params = [(one.arg, annotation(one.annotation) or told.get(one.arg)) for one in function.args.args]
            if params and all(known for _, known in params):
                yield function.name, params


def spec(shape, dtype, own):
    if dtype == SHAPE:
        return f"shape({', '.join(map(str, shape))})"
    numbers = [own.choice((0, 1)) if dtype in INTEGERS else own.randrange(-8, 9) / 4 for _ in range(math.prod(shape))]
    return "x".join([*map(str, shape), dtype]) + "=" + " ".join(map(str, numbers))


def inputs(params, own):
    """Inputs of a signature, of which one may be wrong; nothing where a dim is negative or one is large."""
    dims, values = {}, []
    for _, (extents, dtype) in params:
        for extent in extents:
            if extent.isidentifier():
                dims.setdefault(extent, own.choice(EXTENTS))
    try:
        for name, (extents, dtype) in params:
            shape = [int(eval(extent, {"min": min, "max": max, "ceildiv": lambda a, b: -(-a // b)}, dims)) for extent in extents]
            values.append([name, shape, dtype])
    except (NameError, ZeroDivisionError, SyntaxError):
        return None
    if own.random() < 0.7:
        wrong = own.choice(values)
        kind = own.randrange(6)
        if kind == 0:
            wrong[2] = own.choice([dtype for dtype in WRONG if dtype != wrong[2]])
        elif kind == 1 and wrong[1]:
            wrong[1].pop()
        elif kind == 2:
            wrong[1].append(own.choice((1, 2)))
        elif wrong[1]:
            wrong[1][own.randrange(len(wrong[1]))] += own.choice((-1, 1, 2))
    if any(min(shape, default=0) < 0 or math.prod(shape) > ELEMENTS for _, shape, _ in values):
        return None
    return [f"{name}={spec(shape, dtype, own)}" for name, shape, dtype in values]


def result(relax, file, function, given):
    """The value as text; `trap`; nothing where the run tells neither."""
    command = [relax, "run", str(file), "--entry", function, *(part for one in given for part in ("--input", one))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=own_pairs.SECONDS, preexec_fn=judge.limited)
    except subprocess.TimeoutExpired:
        return None
    return {0: done.stdout, 3: "trap"}.get(done.returncode)


def affected(before, after):
    """Names of definitions of the first text that reach one with another text in the second."""
    def bodies(text):
        parts = re.split(r"^(?=@|def )", text, flags=re.M)
        return {found[1]: part for part in parts if (found := re.search(r"^def (\w+)\(", part, re.M))}

    one, other = bodies(before), bodies(after)
    found = {name for name in one if one[name] != other.get(name)}
    while more := {name for name in one if name not in found and found & set(re.findall(r"\w+", one[name]))}:
        found |= more
    return found


def compared(relax, before, after, seed):
    """What runs of two texts say: the same, or a difference."""
    texts = before.read_text(), after.read_text()
    try:
        functions = list(signatures(texts[0]))
    except SyntaxError:
        return "nothing compared"
    count, names = 0, affected(*texts)
    for function, params in functions:
        if function not in names:
            continue
        own = random.Random(f"{seed}/{function}")
        for _ in range(CASES):
            given = inputs(params, own)
            if given is None:
                continue
            one, other = (result(relax, file, function, given) for file in (before, after))
            count += None not in (one, other)
            if None not in (one, other) and one != other:
                return f"different: `{function}` of {'; '.join(given)}: {one.strip()} and {other.strip()}"[:300]
    return "same" if count else "nothing compared"
