"""The page of results, from the records."""

import collections
import datetime
import importlib.metadata
import json

LIVE = "onnxruntime all"
#: Of each kind of outcome the head of its column, in the order of the table.
COLUMNS = {"proved": "proved", "samples": "open, alike", "unread": "not read, alike", "errors": "error removed", "differs": "other values",
           "special": "at NaN, ∞, extremes", "stops": "stops", "invalid": "invalid", "interface": "inputs changed", "undecided": "undecided"}
VERSIONS = ["onnx", "onnxruntime", "onnxscript", "onnxsim", "onnxoptimizer", "onnxslim", "apache-tvm"]
LEGEND = """| column | meaning |
|---|---|
| asked; changed | programs given to the optimizer; those of which it changed the nodes |
| proved | `relax equiv` proves that both have the same values and traps, for all dims and inputs, and no run differs; its verdict `vacuous` (proved, but no case had a value) is among these |
| open, alike | `relax equiv` has no proof; no case differs, neither of its own nor run by the other system; differences of rounding are among these |
| not read, alike | one of both is not imported; no case differs where the other system runs both |
| error removed | `relax equiv` finds an input for which only the program before stops, and no run of onnxruntime differs in values |
| other values | runs of the other system differ at ordinary inputs, and the program before has the values of ONNX's evaluator, or of `relax run`. For TVM also: `relax equiv` finds elements that are not initialized |
| at NaN, ∞, extremes | the same, at inputs with NaN, infinities or ±1e30 only; rounding of `Log(Softmax)` is among these |
| stops | the rewritten program fails as it runs, where the one before has values |
| invalid | the rewritten program is not valid: it does not load or compile |
| inputs changed | an input of the rewritten program has another name, or is missing |
| undecided | `relax equiv` or runs of the other system differ, and nothing confirms which is right: the last section |
| refused; crashed | the optimizer ends with an error; its process dies or needs more than 60 s |
"""


#: How `relax equiv` says that elements of one program are not initialized.
UNINITIALIZED = ["tir/uninitialized", "undefined/read", "whether anything was written"]
SHAPES_OF_NOTHING = """These are at an extent 0, or (`InvalidGraph`) have an attribute of a later operator set, which our import reads all
the same. A computed shape may have the value 0 in a run, which ONNX takes for the operand's extent in that
place; our import takes it for 0. And the import gives -1 beside an extent 0 a value, where ONNX leaves it undefined."""


#: What the tables of TVM show that is no defect.
NOT_WRONG = """Differences of `DecomposeOpsForInference` and `DecomposeOpsForTraining` are meant: they take every batch normalization for one of
inference, or of training. TVM's default pipeline lowers operators by `LegalizeOps` itself, so that it cannot confirm a difference of that pass by running
both modules; then its values are compared with those of `relax run` on the module before."""


def load(file):
    return [json.loads(line) for line in file.open()] if file.exists() else []


def onnx_kind(result):
    """The column of a rewritten ONNX model, and why."""
    status, about = result["samples"][:2]
    verdict, why = result.get("equiv", ["open", ""])[:2]
    if status == "refused" and "[ONNXRuntimeError]" in str(about):
        return "invalid", about
    if status == "crashed":
        return "invalid", f"onnxruntime crashes: {result['samples'][-1]}"
    found = kind_of_difference(about if status == "compared" else {})
    again = result.get("again", [""])
    if found is None and again[0] == "compared":
        found = kind_of_difference(again[1])
    if found is not None:
        return found
    if verdict in ("equal", "vacuous"):
        return "proved", ""
    if verdict == "different":
        return ("errors", why) if why.startswith(("only the first stops", "one stops")) else ("undecided", f"`relax equiv`: {why}")
    if verdict == "rounding":
        return "samples", "a difference of rounding"
    return ("samples" if verdict == "open" else "unread"), why


def kind_of_difference(counts):
    """The worst difference of the cases."""
    for kind in ("differs", "stops", "special"):
        if kind in counts:
            held = counts[kind]
            what = f"{held['what']} at {held['shapes']}"
            if "Required inputs" in what or "Invalid input name" in what:
                return "interface", what
            confirmed = kind == "stops" or held["reference"] == "yes"
            return (kind, what) if confirmed else ("undecided", f"{what}; evaluator agrees: {held['reference']}")
    return None


def tvm_kind(result):
    """The column of a module that a pass of TVM rewrote, and why."""
    verdict, why = result["equiv"][:2]
    if verdict in ("equal", "vacuous"):
        return "proved", ""
    if verdict in ("open", "rounding"):
        return "samples", why if verdict == "open" else "a difference of rounding"
    called = result.get("called", [])
    differ = [f"{name}: {what}" for name, how, what in called if how == "differ" or how == "alike" and "beside ours" in what]
    if any(word in why for word in UNINITIALIZED):
        return "differs", f"`relax equiv`: {why}"
    if why.startswith(("only the first stops", "one stops")):
        return "errors", why
    if verdict == "different" and "library/unknown" not in why:
        by_tvm = next((f"of both {what}" for _, _, what in called if what), "the same of both")
        return ("differs", differ[0]) if differ else ("undecided", f"`relax equiv`: {why}; TVM: {by_tvm}")
    return ("undecided", differ[0]) if differ else ("unread", why)


def rows(records, kind_of):
    """For each pass the counts of its columns, and each result that is not alike."""
    counts, told = collections.defaultdict(collections.Counter), []
    for record in records:
        names = collections.defaultdict(list)
        for name, (status, *rest) in record["passes"].items():
            if not name or name == "as printed" or name.startswith("onnxruntime") and is_foreign(record):
                continue
            counts[name]["asked"] += 1
            counts[name][status] += 1
            if status in ("refused", "crashed"):
                told.append((name, status, rest[-1], record["program"]))
            elif status == "changed" and rest[0] in record["results"]:
                names[rest[0]].append(name)
        for digest, passes in names.items():
            kind, why = kind_of(record["results"][digest])
            for name in passes:
                counts[name][kind] += 1
                told.append((name, kind, why, record["program"]))
    return counts, told


def is_foreign(record):
    """Whether onnxruntime does not load the model as it is."""
    return LIVE not in record["passes"]


def table(counts):
    """A row for each pass, with the share of what it changed that is proved."""
    kinds = [kind for kind in COLUMNS if any(count[kind] for count in counts.values())]
    heads = ["by", "asked", "changed", *[COLUMNS[kind] for kind in kinds], "refused", "crashed", "share proved"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    total = collections.Counter()
    for name, count in sorted(counts.items()):
        total.update(count if name != LIVE else {})
        if count["changed"] or count["refused"] or count["crashed"]:
            lines.append(row(name, count, kinds))
    idle = [name for name, count in sorted(counts.items()) if not (count["changed"] or count["refused"] or count["crashed"])]
    lines.append(row("all", total, kinds))
    return lines + ["", f"Without any effect: {', '.join(idle) or 'none'}."]


def row(name, count, kinds):
    share = f"{100 * count['proved'] / count['changed']:.1f} %" if count["changed"] and name != LIVE else ""
    cells = [name, count["asked"], "" if name == LIVE else count["changed"], *["" if name == LIVE and kind in ("proved", "samples") else count[kind] or "" for kind in kinds],
             count["refused"] or "", count["crashed"] or "", share]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def reasons(told, kinds, few=12):
    """The most frequent reasons of some kinds, with a program."""
    found = collections.defaultdict(list)
    for name, kind, why, program in told:
        if kind in kinds and name != LIVE:
            found[(kind, shortened(why))].append(program)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    lines = ["| results | kind | reason | such as |", "|---|---|---|---|"]
    return lines + [f"| {len(programs)} | {COLUMNS.get(kind, kind)} | {why} | {programs[0]} |" for (kind, why), programs in ordered[:few]]


def shortened(why):
    """A reason without names of nodes, files and numbers of elements."""
    import re

    why = re.sub(r"\s*\(?/[^ ,)]*/[^ ,)]*", "", why.replace("|", "/").replace("\n", " "))
    why = re.sub(r"\s*\([^()]*\)$", "", why)
    return re.sub(r"`?\blv?[0-9]+\b`?|\bv[0-9]+\b|`[_a-z0-9]+\[\]`", "·", why)[:140] or "–"


def each(told, kinds):
    """Every result of some kinds: the pass, the program and what differs; of each pass at most five."""
    lines, seen = ["| by | program | kind | what |", "|---|---|---|---|"], collections.Counter()
    for name, kind, why, program in sorted(told):
        if kind in kinds:
            seen[(name, kind)] += 1
            if seen[(name, kind)] <= 5:
                lines.append(f"| {name} | {program} | {COLUMNS.get(kind, kind)} | {clean(why)} |")
    more = sum(max(0, count - 5) for count in seen.values())
    return lines + ["", f"{more} more are not listed: of each pass and kind five are."]


def clean(why):
    return str(why).replace("|", "/").replace("\n", " ").replace("<", "‹")[:200]


def unsound(records):
    """Results that are proved while a run of the other system differs."""
    found = []
    for record in records:
        for digest, result in record["results"].items():
            if result.get("equiv", [""])[0] == "equal" and "samples" in result:
                kind, why = onnx_kind(result)
                if kind != "proved":
                    names = [name for name, held in record["passes"].items() if held[1] == digest]
                    found.append((", ".join(names), kind, why, record["program"]))
    return found


def section(title, records, kind_of):
    counts, told = rows(records, kind_of)
    origins = collections.Counter(record["program"].split("/")[0] for record in records)
    lines = [f"## {title}", "", "Programs: " + ", ".join(f"{count} {name}" for name, count in sorted(origins.items())) + ".", ""]
    lines += table(counts)
    lines += ["", "### Open or not read", "", *reasons(told, ("samples", "unread"), 25)]
    lines += ["", "### Refused and crashed", "", *reasons(told, ("refused", "crashed"), 25)]
    lines += ["", "### Different", "", *each(told, ("differs", "special", "stops", "invalid", "interface"))]
    return lines + ["", "### Undecided", "", *each(told, ("undecided",)), ""]


def text(folder):
    """The whole page."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)
    models, modules = load(folder / "onnx.jsonl"), load(folder / "tvm.jsonl")
    lines = ["# Rewrites by other compilers", "", "Generated by `VENV/bin/python bench/equiv/run.py --relax target/debug/relax` ([bench/equiv](../equiv/README.md)),",
             f"{datetime.date.today().isoformat()}; {versions}; one thread. Wrong results with the smallest programs:",
             "[docs/FOUND-ELSEWHERE.md](../../docs/FOUND-ELSEWHERE.md).", "", LEGEND]
    lines += section("ONNX", models, onnx_kind)
    lines += ["### Proved, and a run differs", "", SHAPES_OF_NOTHING, "", "| by | program | kind | what |", "|---|---|---|---|"]
    lines += [f"| {name} | {program} | {COLUMNS[kind]} | {clean(why)} |" for name, kind, why, program in unsound(models) if kind != "interface"]
    lines += ["", *section("TVM", modules, tvm_kind), NOT_WRONG]
    return "\n".join(lines).rstrip() + "\n"
