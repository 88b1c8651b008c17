"""The page of results on our own passes, from the records."""

import collections
import datetime
import json
import pathlib
import re
import subprocess

import own_broken
import own_faults
import own_reasons

PROVED = ("equal", "vacuous")
#: The aim.
FAULTS = 5_000
LEGEND = """| column | meaning |
|---|---|
| pairs | programs that the pass changed, as text without the phase; each distinct pair of texts counts once per program and pass |
| proved | `relax equiv` proves all functions equal, bit for bit, for all dims and inputs; no random case differs |
| vacuous | among these: for some function no random case had a value |
| open | some function has no proof; no random case differs |
| rounding | a random case differs by rounding, by a pass that may round |
| different | a random case differs otherwise, or the prover refutes the pair |
| no answer | the limit of time or memory |
| functions | those proved, of those in the pairs |
"""
GROUPS = {
    "kept": "Passes that keep values, before memory is explicit",
    "memory": "The same passes and schedules on explicit memory (P2.1)",
    "later": "Results of phases P2.2 and P2.3",
    "changed": "Passes that change values, by their record",
}


def load(file):
    return [json.loads(line) for line in file.open()] if file.exists() else []


def group(pair, exactness, texts):
    """What a pair counts as."""
    if exactness.startswith(("rounds", "over")):
        return "changed"
    if pair["phases"][1] in ("P2.2", "P2.3"):
        return "later"
    return "memory" if "memory.alloc_" in (texts / f"{pair['files'][1]}.rx").read_text() else "kept"


def share(part, whole):
    return f"{100 * part / whole:.1f} %" if whole else "–"


def counted(pairs):
    """The cells of a line of the table."""
    verdicts = collections.Counter(pair["verdict"][0] for pair in pairs)
    functions = [one[1] for pair in pairs for one in pair["verdict"][2]]
    proved = sum(verdicts[name] for name in PROVED)
    silent = sum(verdicts[name] for name in ("late", "failed", "ill", "unread"))
    numbers = [len(pairs), proved, verdicts["vacuous"], verdicts["open"], verdicts["rounding"], verdicts["different"], silent]
    of_functions = f"{sum(name in PROVED for name in functions)} of {len(functions)}"
    return [*(number or "" for number in numbers), share(proved, len(pairs)), of_functions]


def line(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def general(why):
    """A reason without names and numbers."""
    why = re.sub(r"`[^`]*`", "`·`", why)
    why = re.sub(r"only one side checks .*", "only one side checks a claim on dims", why)
    why = re.sub(r"only one side may stop: .*?(\w+/C\d+|rank of|dtype of|·|$).*", r"only one side may stop: \1", why)
    return re.sub(r"it is not known whether .*", "it is not known whether a claim on dims holds", why).replace("|", "/")[:140]


def reasons(pairs):
    """Of open functions each reason, how often, and an example."""
    found = collections.Counter()
    examples = {}
    for program, pair in pairs:
        open_ones = [one for one in pair["verdict"][2] if one[1] not in PROVED] or [["", pair["verdict"][0], pair["verdict"][1]]]
        for function, verdict, why in open_ones if pair["verdict"][0] not in PROVED else []:
            key = general(why) if verdict == "open" else f"{verdict}: {general(why)}"
            found[key] += 1
            examples.setdefault(key, f"`{pair['pass']}`: {program}, `{function}`")
    text = "| functions | reason | such as |\n|---|---|---|\n"
    return text + "".join(line([count, key, examples[key]]) for key, count in found.most_common(25))


def table(pairs):
    head = ["pass", "pairs", "proved", "vacuous", "open", "rounding", "different", "no answer", "share proved", "functions"]
    by_pass = collections.defaultdict(list)
    for _, pair in pairs:
        by_pass[pair["pass"]].append(pair)
    rows = [line([f"`{name}`", *counted(own)]) for name, own in sorted(by_pass.items())]
    return line(head) + "|---" * len(head) + "|\n" + "".join(rows) + line(["all", *counted([pair for _, pair in pairs])])


def broken(records):
    """The part on seeded faults."""
    found = load(records / "broken.jsonl")
    if not found:
        return ""
    formed = [one for one in found if one["verdict"] in own_broken.FORMED]
    proved = [one for one in formed if one["verdict"] in PROVED]
    false = [one for one in proved if own_broken.is_false(one)]
    text = f"""## Seeded faults

Each is a proved pair with one edit in the second text. The prover alone is asked (`--cases 0`), so that no random case hides what it says. Edits that
`relax check` refuses are drawn again. {len(formed)} well-formed faults, {len(found) - len(formed)} refused; {len(proved)} proved equal, of which
{len(false)} differ on random inputs (`relax diff`, 200 cases).

"""
    text += line(["kind", "faults", "not proved", "proved, no run refutes it", "false proofs"]) + "|---|---|---|---|---|\n"
    for kind in own_faults.KINDS:
        own = [one for one in formed if one["kind"] == kind]
        equal = [one for one in own if one["verdict"] in PROVED]
        wrong = sum(own_broken.is_false(one) for one in equal)
        text += line([kind, len(own), len(own) - len(equal), len(equal) - wrong or "", wrong or ""])
    text += line(["all", len(formed), len(formed) - len(proved), len(proved) - len(false), len(false)])
    text += "\n### Faults that change nothing\n\n" + line(["faults", "why they are equal", "such as"]) + "|---|---|---|\n"
    by_reason = collections.defaultdict(list)
    for one in proved:
        by_reason[own_reasons.reason(one, records / "texts")].append(one)
    for reason, own in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        one = own[0]
        before, after = (side.replace("|", "/")[:90] for side in one["lines"])
        text += line([len(own), reason, f"{one['program']}, `{one['pass']}`: `{before}` → `{after}`"])
    return text


def sample(settings, faults):
    """What part of the programs and faults this is; nothing where it is all of them."""
    options = dict(setting[2:].split(" ", 1) for setting in settings)
    every, only = int(options["every"]), options.get("only")
    programs = f"one in {every} programs" if every > 1 else "all programs"
    parts = [f"{programs} of {only or 'the corpus'} in order"] if every > 1 or only else []
    if faults < FAULTS:
        parts.append(f"{faults:,} of the {FAULTS:,} faults that are the aim")
    return f"This is a sample: {', and '.join(parts)}.\n\n" if parts else ""


def text(records, exactness):
    found = load(records / "pairs.jsonl")
    pairs = [(record["program"], pair) for record in found for pair in record["pairs"]]
    groups = collections.defaultdict(list)
    for program, pair in pairs:
        groups[group(pair, exactness.get(pair["pass"], "exact"), records / "texts")].append((program, pair))
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent).stdout.strip()
    settings = json.loads((records / "settings.json").read_text())
    command = " ".join(["python3 bench/equiv/own.py --relax target/debug/relax", *settings])
    page = f"""# Our own passes, compared by `relax equiv`

Generated by `{command}` ([bench/equiv](../equiv/README.md)) at commit {commit},
{datetime.date.today()}. {len(found)} programs of the corpus, {len(pairs)} pairs.

{LEGEND}
"""
    formed = sum(one["verdict"] in own_broken.FORMED for one in load(records / "broken.jsonl"))
    page += sample(settings, formed)
    kept = [pair for _, pair in groups["kept"]]
    memory = kept + [pair for _, pair in groups["memory"]]
    later = memory + [pair for _, pair in groups["later"]]
    for name, own in (("before memory is explicit", kept), ("to P2.1, explicit memory included", memory), ("to P2.3", later)):
        proved = sum(pair["verdict"][0] in PROVED for pair in own)
        page += f"Of pairs of passes that keep values, {name}: {proved} of {len(own)} proved, {share(proved, len(own))}.\n\n"
    for name, head in GROUPS.items():
        if groups[name]:
            page += f"## {head}\n\n{table(groups[name])}\n### Not proved\n\n{reasons(groups[name])}\n"
    stopped = collections.Counter((name, general(why)) for record in found for name, why in record["stopped"].items())
    if stopped:
        page += "## Runs of `relax opt` that stopped\n\n| programs | run | reason |\n|---|---|---|\n"
        page += "".join(line([count, f"`{name}`", why]) for (name, why), count in stopped.most_common(20)) + "\n"
    return page + broken(records)
