"""Lines of Python, for messages and comments."""

from __future__ import annotations

import os
import re
from typing import Any

_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in [^\n]*(?:\n[ \t]+(?P<text>[^\n]*))?')


def _inside(file: str, root: str) -> bool:
    return file.startswith(root + os.sep) or file.startswith("torch" + os.sep)


def line_of(trace: str | None, root: str) -> str | None:
    """File, line and text of the innermost frame that is not PyTorch's own, out of a printed stack."""
    frames = list(_FRAME.finditer(trace or ""))
    own = [frame for frame in frames if not _inside(frame["file"], root)]
    for frame in reversed(own or frames):
        text = (frame["text"] or "").strip()
        place = f"{os.path.basename(frame['file'])}:{frame['line']}"
        return f"{place}: {text}" if text else place
    return None


def frame_line(frame: Any) -> str | None:
    """File, line and text of a `traceback.FrameSummary`."""
    if frame is None or isinstance(frame, str):
        return frame
    text = (frame.line or "").strip()
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return f"{place}: {text}" if text else place


#: Where PyTorch checks the constraints of operators, relative to its folder.
_CHECKS = ("_meta_registrations.py", "_subclasses", "_prims_common", "_prims", os.path.join("fx", "experimental"))
#: Functions of `_refs` that do nothing but look at shapes.
_SHAPES = {
    "_reshape_view_helper",
    "_reshape_view_helper_core_alg",
    "_view_or_reshape",
    "broadcast_shapes",
    "_broadcast_shapes",
    "_maybe_broadcast",
    "expand",
    "reshape",
    "view",
    "infer_size",
}


#: From where PyTorch calls its C++: operators, what they are decomposed to, and graphs that it runs once more.
_CALLS = ("_ops.py", "_decomp", os.path.join("utils", "_python_dispatch.py"), os.path.join("nn", "modules", "module.py"))


def has_line_of_model(location: Any, root: str) -> bool:
    """Whether a guard was made where a line of Python that is not PyTorch's own asks for it."""
    frame: Any = getattr(location, "framework_loc", None)
    return getattr(location, "maybe_user_loc", None) is not None or not _inside(str(getattr(frame, "filename", "")), root)


def origin_of(location: Any, root: str) -> str:
    """What asked for a guard: `program`, a branch of the model; `operator`, a constraint; `dispatcher`, what is in C++."""
    frame: Any = getattr(location, "framework_loc", None)
    if not hasattr(frame, "filename") or not _inside(frame.filename, root):
        return "program"
    relative = os.path.relpath(frame.filename, root)
    if _is_check(relative, frame.name):
        return "operator"
    is_call = _is_of(relative, _CALLS) and getattr(location, "maybe_user_loc", None) is None
    return "dispatcher" if is_call else "program"


def _is_of(relative: str, parts: tuple[str, ...]) -> bool:
    return any(relative == part or relative.startswith(part + os.sep) for part in parts)


def _is_check(relative: str, function: str) -> bool:
    if _is_of(relative, _CHECKS):
        return True
    return relative.startswith("_refs" + os.sep) and function in _SHAPES
