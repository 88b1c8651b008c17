"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os


def write_text(path: str, text: str) -> None:
    folder, name = os.path.split(os.path.abspath(path))
    part = os.path.join(folder, f".{name}-{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as to:
            to.write(text)
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
