"""Broken pairs: a proved pair with one seeded fault in the second text. The prover alone is asked, without random cases."""

import concurrent.futures
import json
import pathlib
import random
import subprocess
import tempfile

import judge
import own_faults
import own_heaps
import own_pairs
import own_runs

#: Texts of more bytes are left out.
BYTES = 12_000
#: Random cases for each function of a pair that is proved in spite of its fault.
CASES = 200
BATCH = 64
#: Verdicts on well-formed texts.
FORMED = ("equal", "vacuous", "open", "different", "late", "failed")


def proved_pairs(records):
    """Program, pass and files of the pairs that are proved, in a fixed order."""
    for line in (records / "pairs.jsonl").open():
        record = json.loads(line)
        for pair in record["pairs"]:
            if pair["verdict"][0] in ("equal", "vacuous"):
                yield record["program"], pair["pass"], *pair["files"]


def diff(relax, before, after):
    """What random cases say: the same, or a difference."""
    command = [relax, "diff", str(before), "--against", str(after), "--cases", str(CASES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5 * own_pairs.SECONDS, preexec_fn=judge.limited)
    except subprocess.TimeoutExpired:
        return "late"
    return {0: "same", 5: "nothing compared"}.get(done.returncode, "different: " + " ".join(done.stdout.split())[:300])


def is_false(record):
    """Whether a run refutes a proof. Which of several traps comes first is not compared by the prover (proofs/theorems/src/validation/mod.rs)."""
    runs = record.get("runs", "")
    return runs.startswith("different") and ": one stops with " not in runs


def changed_lines(before, after):
    """The lines that differ, before and after."""
    one, other = before.split("\n"), after.split("\n")
    first = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)) - 1)
    return [one[first].strip(), other[first].strip() if len(one) == len(other) else ""]


class Draws:
    """Faults by number: the same number is the same fault."""

    def __init__(self, args):
        self.args = args
        self.pairs = [pair for pair in proved_pairs(args.records) if self.file(pair[3]).stat().st_size <= BYTES]
        self.pairs.sort()
        self.on_heaps = [pair for pair in self.pairs if own_heaps.ALLOC in self.file(pair[3]).read_text()]

    def file(self, name):
        return self.args.texts / f"{name}.rx"

    def runs(self, before, after, broken):
        """What runs say of a fault that is proved. Where the text checks objects, inputs that it refuses count too."""
        found = diff(self.args.relax, self.file(before), broken)
        if found in ("same", "nothing compared") and own_heaps.ALLOC in broken.read_text():
            more = own_runs.compared(self.args.relax, self.file(after), broken, self.args.seed)
            return found if more == "nothing compared" else more
        return found

    def draw(self, number):
        """The record of a fault, and whether its text was one; nothing where the kind has no place in the text."""
        own = random.Random(f"{self.args.seed}/{number}")
        kind = own_faults.KINDS[number % len(own_faults.KINDS)]
        pairs = self.on_heaps if kind in own_heaps.KINDS else self.pairs
        if not pairs:
            return None
        program, name, before, after = own.choice(pairs)
        text = self.file(after).read_text()
        broken = own_faults.faulty(text, kind, own)
        if broken is None or broken == text:
            return None
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "broken.rx"
            file.write_text(broken)
            verdict, why, _ = own_pairs.asked(self.args.relax, self.file(before), file, "--cases", "0")
            record = {"number": number, "kind": kind, "program": program, "pass": name, "verdict": verdict, "why": why}
            if verdict in ("equal", "vacuous"):
                record["runs"] = self.runs(before, after, file)
                record["lines"] = changed_lines(text, broken)
                record["file"] = own_pairs.stored(self.args.texts, broken)
                record["before"] = before
        return record


def run(args):
    """Writes a line for each fault; gives how many are proved though runs differ."""
    draws, number, formed, false = Draws(args), 0, 0, 0
    with (args.records / "broken.jsonl").open("w") as out, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        while formed < args.broken and number < 100 * args.broken:
            for record in pool.map(draws.draw, range(number, number + BATCH)):
                if record is None or formed == args.broken:
                    continue
                formed += record["verdict"] in FORMED
                false += is_false(record)
                print(json.dumps(record), file=out, flush=True)
            number += BATCH
    return false
