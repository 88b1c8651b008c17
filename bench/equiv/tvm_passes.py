"""Passes of TVM on Relax modules, and the process in which they run.

    tvm_passes.py            answers jobs of scripts/peers/worker.py: {"text": FILE, "folder": FOLDER, "exactly": NAME or none}

Its answers are [pass, "same" | "changed" | "refused", [file of the result], reason]; the first is of "as printed", the module before any pass.
With "run": [FILE, FILE] both modules are compiled and called on the same inputs, those of the file "given" if there is one: [function, "alike" | "differ" | "stopped", [], what].
"""

import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/peers"))
import tvm_beside  # noqa: E402
from alike import archived, difference  # noqa: E402
from worker import brief, serve  # noqa: E402

ALONE = """CanonicalizeBindings EliminateCommonSubexpr FoldConstant DeadCodeElimination ExpandTupleArguments ReorderTakeAfterMatmul
ReorderPermuteDimsAfterConcat CombineParallelMatmul AdjustMatmulOrder ExpandMatmulOfSum RemoveRedundantReshape RemoveUnusedOutputs
RemoveUnusedParameters ConvertToDataflow ToNonDataflow Normalize TopologicalSort LambdaLift InlinePrivateFunctions DecomposeOpsForInference
DecomposeOpsForTraining FastMathTransform FoldBatchnormToConv2D FuseTransposeMatmul LegalizeOps RemovePurityChecking DataflowUseInplaceCalls
ComputePrimValue OptimizeLayoutTransform ToMixedPrecision NormalizeGlobalVar SpecializePrimFuncBasedOnCallSite""".split()


def passes():
    """All of them, by name."""
    import tvm
    from tvm import relax

    made = {name: getattr(relax.transform, name)() for name in ALONE if hasattr(relax.transform, name)}
    made["ConvertLayout"] = relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})
    lower = [relax.transform.ConvertToDataflow(), relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    made["FuseOps"] = tvm.transform.Sequential(lower + [relax.transform.FuseOps()])
    made["FuseOps, FuseTIR"] = tvm.transform.Sequential(lower + [relax.transform.FuseOps(), relax.transform.FuseTIR()])
    made["RewriteDataflowReshape"] = tvm.transform.Sequential(lower[:2] + [relax.transform.RewriteDataflowReshape()])
    return made


def written(module, folder):
    text = module.script() + "\n"
    place = pathlib.Path(folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    place.write_text(text)
    return str(place)


def rewritten(job):
    """How each pass fares with a module."""
    import tvm

    yield "as printed", "begun", [], ""
    module = tvm.script.from_source(pathlib.Path(job["text"]).read_text())
    before = written(module, job["folder"])
    yield "as printed", "changed", [before], ""
    for name, transform in passes().items():
        if name in job["tried"] or name != job.get("exactly", name):
            continue
        yield name, "begun", [], ""
        try:
            with tvm.target.Target("llvm"):
                after = written(transform(module), job["folder"])
        except Exception as error:
            yield name, "refused", [], brief(error)
            continue
        yield (name, "same", [], "") if after == before else (name, "changed", [after], "")


def called(job):
    """Each function of two modules, compiled by TVM and called; of a difference only its function, and what it should give."""
    folder, found, given = pathlib.Path(job["folder"]), [], job.get("given")
    for number, file in enumerate(job["run"]):
        place = folder / f"run{number}"
        place.mkdir()
        yield f"module {number}", "begun", [], ""
        ended = tvm_beside.answers(pathlib.Path(file).read_text(), place, [], given)
        found.append({name: (status, why) for name, status, _, why in ended if status != "begun"})
    for name, (status, why) in found[0].items():
        if job["function"] not in ("", name):
            continue
        other, why_other = found[1].get(name, ("missing", ""))
        if status != "ran" or other != "ran":
            yield name, "alike" if status == other else "stopped", [], f"{status} {why} / {other} {why_other}"
            continue
        before, after = (archived(folder / f"run{number}" / name / "tvm.npz", "") for number in (0, 1))
        told = difference(before, after)
        expected = archived(given, "expected") if given else []
        beside = difference(expected, after) if expected and not told else None
        what = f"both modules as TVM runs them beside ours: {beside}" if beside else told or ""
        yield name, "differ" if told else "alike", [], what


def answers(job):
    return called(job) if "run" in job else rewritten(job)


if __name__ == "__main__":
    serve(answers)
