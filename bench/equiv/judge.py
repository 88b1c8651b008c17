"""What `relax equiv` says of two programs."""

import json
import subprocess

from alike import archived, difference

CASES = 30
SECONDS = 20
MEMORY = 6 << 30


def limited():
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def equiv(relax, left, right, save):
    """The verdict, its reason and the function.

    Verdicts are those of the command, rounding (a difference that is one of rounding), unread (the program before is not imported), ill (the one
    after), late and failed. A difference is that of a random case, and its inputs are in `save`.
    """
    save.unlink(missing_ok=True)
    command = [relax, "equiv", str(left), str(right), "--up-to-rounding", "--cases", str(CASES), "--format", "json", "--save", str(save)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=limited)
    except subprocess.TimeoutExpired:
        return "late", f"no answer in {SECONDS} s", ""
    lines = [json.loads(line) for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
    failure = next((line["message"] for line in lines if line.get("type") in ("failure", "error") and "message" in line), None)
    if failure is not None and done.returncode in (1, 2, 4):
        return ("ill" if failure.startswith(str(right)) else "unread"), brief(failure), ""
    verdicts = [line for line in lines if "verdict" in line and line.get("type") in ("equiv", "diff")]
    if done.returncode in (0, 1, 5, 6) and verdicts:
        worst = next((line for line in verdicts if line["verdict"] != "equal"), verdicts[0])
        if worst["verdict"] == "different" and is_rounding(save):
            return "rounding", (worst.get("why") or "")[:200], ""
        return worst["verdict"], (worst.get("why") or worst.get("how") or "")[:200], worst.get("function", "")
    return "failed", f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:160]}", ""


def is_rounding(save):
    """Whether the saved case differs by no more than sums in another order do."""
    if not save.exists():
        return False
    expected, found = archived(save, "expected"), archived(save, "found")
    return bool(expected) and difference(expected, found) is None


def brief(message):
    """The reason without the name of the file and without places in it."""
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.strip().startswith(("╭", "│", "─", "·"))]
    first = lines[0].split(": ", 1)[-1]
    return (lines[1] if first == "not supported:" and len(lines) > 1 else first)[:160]
