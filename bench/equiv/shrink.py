#!/usr/bin/env python3
"""Makes a model that an optimizer changes the values of as small as it can, and prints it with the one that the optimizer makes of it.

    bench/equiv/shrink.py (--seed N | --model FILE) --optimizer NAME [--kind differs|stops|special|refused|crashed] [--output FILE.onnx]

Steps: an earlier value is made the output, a value is made an input, a node of one operand is left out; a step stays if the optimizer still
gives a difference of the same kind.
"""

import argparse
import pathlib
import sys
import tempfile

import onnx
from onnx import helper, shape_inference

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "scripts/peers")]
import generator  # noqa: E402
from worker import Worker  # noqa: E402


class Asked:
    """Whether an optimizer changes what a model computes, by the two processes."""

    def __init__(self, optimizer, kind, folder):
        self.optimizer, self.kind, self.folder = optimizer, kind, pathlib.Path(folder)
        self.optimizers, self.samples = (Worker([sys.executable, str(HERE / name)], 60) for name in ("optimizers.py", "samples.py"))

    def found(self, model):
        """What differs, and the file of the result; None where nothing does."""
        place = self.folder / "model.onnx"
        place.write_bytes(model.SerializeToString())
        job = {"model": str(place), "others": [], "live": self.optimizer == "onnxruntime all"}
        if not job["live"]:
            made = self.optimizers.run({"model": str(place), "folder": str(self.folder), "exactly": self.optimizer})
            if self.kind in ("refused", "crashed") and made and made[0][1] == self.kind:
                return made[0][3], None
            job["others"] = [name for answer in made for name in answer[2]]
        for name, status, about, why in self.samples.run(job):
            if status == "compared" and self.kind in about[0]:
                return about[0][self.kind], name
            if status == "refused" and self.kind == "load" and name:
                return why, name
        return None


def used(model):
    """The model without nodes, constants and inputs that no output needs."""
    graph = model.graph
    needed, kept = {value.name for value in graph.output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input)
    nodes, constants = list(reversed(kept)), [t for t in graph.initializer if t.name in needed]
    inputs = [value for value in graph.input if value.name in needed]
    made = helper.make_graph(nodes, graph.name, inputs, graph.output, constants)
    return helper.make_model(made, ir_version=model.ir_version, opset_imports=model.opset_import)


def copied(model):
    return onnx.ModelProto.FromString(model.SerializeToString())


def smaller(model):
    """Models with one thing less, those that leave out most first."""
    inferred = shape_inference.infer_shapes(model)
    types = {value.name: value for value in inferred.graph.value_info}
    outputs = {value.name for value in model.graph.output}
    if len(outputs) > 1:
        for value in model.graph.output:
            one = copied(model)
            del one.graph.output[:]
            one.graph.output.append(value)
            yield used(one)
    for node in model.graph.node[:-1]:
        if node.output[0] in types:
            one = copied(model)
            del one.graph.output[:]
            one.graph.output.append(types[node.output[0]])
            yield used(one)
    for number, node in reversed(list(enumerate(model.graph.node))):
        if node.output[0] in types and node.output[0] not in outputs and node.op_type != "Constant":
            one = copied(model)
            del one.graph.node[number]
            one.graph.input.append(types[node.output[0]])
            yield used(one)
    for number, node in enumerate(model.graph.node):
        if node.input and node.output[0] not in outputs:
            one = copied(model)
            del one.graph.node[number]
            for other in one.graph.node:
                for index, name in enumerate(other.input):
                    if name == node.output[0]:
                        other.input[index] = node.input[0]
            yield used(one)


def is_valid(model):
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:
        return False
    return bool(model.graph.node)


def shrunk(model, asked):
    """The smallest model that steps lead to, what differs, and the file of the optimizer's result."""
    best = asked.found(model)
    if best is None:
        raise SystemExit(f"{asked.optimizer}: no difference of the kind {asked.kind}")
    while True:
        for one in smaller(model):
            found = asked.found(one) if is_valid(one) else None
            if found is not None:
                model, best = one, found
                break
        else:
            return model, *best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--model")
    parser.add_argument("--optimizer", required=True)
    parser.add_argument("--kind", default="differs")
    parser.add_argument("--output")
    args = parser.parse_args()
    model = onnx.load(args.model) if args.model else generator.generated(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        asked = Asked(args.optimizer, args.kind, folder)
        model, what, result = shrunk(used(model), asked)
        print(onnx.printer.to_text(model))
        print(f"\n{args.optimizer}: {what}\n")
        if result and pathlib.Path(result).exists():
            print(onnx.printer.to_text(onnx.load(result)))
    if args.output:
        onnx.save(model, args.output)


if __name__ == "__main__":
    main()
