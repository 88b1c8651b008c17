"""Why a seeded fault that `relax equiv` proves changes nothing, as its line shows. What no rule covers is one group, of which a sample was looked at."""

import re

import own_heaps

COMMUTATIVE = "add|multiply|maximum|minimum|equal|not_equal|logical_and|logical_or|logical_xor|bitwise_and|bitwise_or|bitwise_xor|log_add_exp|max|min|same"

#: What a changed line says of itself.
LINES = {
    "an attribute that means nothing when a program runs": r"^func_attr\(",
    "the order of names in `output` means nothing": r"^output\(",
    "a storage that is large enough all the same": r"memory\.alloc_storage\(",
    "a buffer of which a part is not used": r"= alloc_buffer\(",
    "more blocks or vectors of threads: the guard stays, or two nests write the same elements": r"thread_binding\(|^count_\d+ = ",
    "a negative axis is the same axis as a positive one": r"\baxis=",
}


def unreached(text, line):
    """Whether a line stands in a definition that no public function reaches."""
    found = list(re.finditer(r"^def (\w+)\(.*\n(?:(?:    .*|\) ?.*)?\n)*", text, re.M))
    bodies = {one[1]: one[0] for one in found}
    public = [name for name, body in bodies.items() if 'func_attr("private", True)' not in body and f"@tensorir_function\ndef {name}(" not in text]
    reached, todo = set(), public
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += [other for other in re.findall(r"\b\w+\b", bodies[name]) if other in bodies]
    return all(name in reached for name, body in bodies.items() if line in body) is False


def reason(fault, texts):
    """The reason by the place of the edit, its kind and the line that it changed."""
    before, after = fault["lines"]
    if fault["runs"].startswith("different"):
        both = ": one stops with " in fault["runs"]
        return "both programs trap, and which trap comes first is not compared" if both else "**a false proof**"
    if texts is not None and after and unreached((texts / f"{fault['file']}.rx").read_text(), after):
        return "in a definition that no public function calls"
    for name, pattern in LINES.items():
        if re.search(pattern, before):
            return name
    if fault["kind"] == "built-ins in another order":
        return "built-ins that do not depend on each other, in another order"
    if fault["kind"] in own_heaps.KINDS and fault["runs"] == "same":
        return "a check that another check or a tensor program makes too, or a slot that nothing reads: runs on inputs that violate the signature agree"
    exchanged = fault["kind"] in ("operands exchanged", "arguments exchanged")
    if exchanged and re.search(rf"\b(?:legal_|fused_)?(?:{COMMUTATIVE})(?:_\d+)?\b", before):
        return "the operands of a commutative operator are exchanged"
    return "no rule covers it; those looked at change elements that nothing reads, or are equal by that line alone"
