"""What notebooks show of results: texts and tables, with all characters escaped."""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence


def code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def sentence(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Nothing without rows."""
    lines = [f"<tr>{''.join(f'<td><code>{html.escape(str(cell))}</code></td>' for cell in row)}</tr>" for row in rows]
    if not lines:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
