"""Why a seeded fault changes nothing: each that `relax equiv` proves was looked at, and these are the reasons."""

import re

COMMUTATIVE = "add|multiply|maximum|minimum|equal|not_equal|logical_and|logical_or|logical_xor|bitwise_and|bitwise_or|bitwise_xor|log_add_exp|max|min"


def reason(fault, _texts):
    """The reason by the kind of the edit and the line that it changed."""
    before, after = fault["lines"]
    kind = fault["kind"]
    for name, pattern in LINES.items():
        if re.search(pattern, before):
            return name
    exchanged = kind in ("operands exchanged", "arguments exchanged")
    if exchanged and re.search(rf"\b(?:legal_|fused_)?(?:{COMMUTATIVE})(?:_\d+)?\b", before):
        return "the operands of a commutative operator are exchanged"
    return f"{kind}: not told by its line"


#: What a changed line says of itself.
LINES = {
    "an attribute that means nothing when a program runs": r"^func_attr\(",
    "the order of names in `output` means nothing": r"^output\(",
    "a storage that is large enough all the same": r"memory\.alloc_storage\(",
}
