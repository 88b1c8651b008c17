"""Our prover beside TVM's arithmetic analyzer, on the same questions, in one run.

usage: python run.py [--relax PATH] [--cases FILE] [--output FILE.md]

See README.md beside this file. TVM is optional: without the package only ours is measured.
"""

import argparse
import ast
import contextlib
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def read_cases(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def prove(binary, path, flags):
    """What `relax prove --file` prints of each line, times taken inside of the process, and what else it prints."""
    command = [binary, "prove", "--file", str(path), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 2):
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    unread = [row for row in rows if row.get("answer") == "error"]
    if done.returncode == 2 or unread:
        sys.exit(f"{' '.join(command)}: {unread[0] if unread else done.stderr}")
    return {row["id"]: row for row in rows if "id" in row}, [row for row in rows if "id" not in row]


class Ours:
    """`relax prove --file CASES --json`: one object a line, times taken inside of the process."""

    def __init__(self, binary, with_solver):
        self.name = "relax, all stages" if with_solver else "relax, without its z3"
        self.flags = [] if with_solver else ["--no-solver"]
        self.binary = binary

    def answers(self, path, cases):
        by_id, _ = prove(self.binary, path, self.flags)
        return [(by_id[case["id"]]["answer"], by_id[case["id"]]["microseconds"]) for case in cases]


class Translation(ast.NodeVisitor):
    """A statement of the cases, which is Python syntax, as an expression of TVM."""

    def __init__(self, tirx, variables):
        self.t = tirx
        self.variables = variables

    def visit_Expression(self, node):
        return self.visit(node.body)

    def visit_Constant(self, node):
        return self.t.const(node.value, "bool" if isinstance(node.value, bool) else "int64")

    def visit_Name(self, node):
        if node.id in ("true", "false"):
            return self.t.const(node.id == "true", "bool")
        return self.variables[node.id]

    def visit_UnaryOp(self, node):
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return self.t.Not(operand)
        if isinstance(node.op, ast.USub):
            return self.t.const(0, "int64") - operand
        raise ValueError(ast.dump(node))

    def visit_BinOp(self, node):
        a, b = self.visit(node.left), self.visit(node.right)
        operations = {
            ast.Add: lambda: a + b,
            ast.Sub: lambda: a - b,
            ast.Mult: lambda: a * b,
            ast.FloorDiv: lambda: self.t.floordiv(a, b),
            ast.Mod: lambda: self.t.floormod(a, b),
        }
        return operations[type(node.op)]()

    def visit_BoolOp(self, node):
        make = self.t.And if isinstance(node.op, ast.And) else self.t.Or
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            result = make(result, self.visit(value))
        return result

    def visit_Compare(self, node):
        if len(node.ops) != 1:
            raise ValueError("comparisons do not chain")
        a, b = self.visit(node.left), self.visit(node.comparators[0])
        if str(a.ty) == "bool":
            both = self.t.Or(self.t.And(a, b), self.t.And(self.t.Not(a), self.t.Not(b)))
            return both if isinstance(node.ops[0], ast.Eq) else self.t.Not(both)
        classes = {
            ast.Eq: self.t.EQ,
            ast.NotEq: self.t.NE,
            ast.Lt: self.t.LT,
            ast.LtE: self.t.LE,
            ast.Gt: self.t.GT,
            ast.GtE: self.t.GE,
        }
        return classes[type(node.ops[0])](a, b)

    def visit_Call(self, node):
        arguments = [self.visit(argument) for argument in node.args]
        if node.func.id == "select":
            return self.t.Select(*arguments)
        make = {"min": self.t.Min, "max": self.t.Max}[node.func.id]
        result = arguments[0]
        for argument in arguments[1:]:
            result = make(result, argument)
        return result

    def generic_visit(self, node):
        raise ValueError(f"not in the syntax of the cases: {ast.dump(node)}")


class Tvm:
    """`tvm.sym.Analyzer`: assumptions are constraint scopes, then `can_prove`. There are no
    counterexamples; what is counted beside proofs is how often the negation is proved. The
    translation is not timed."""

    def __init__(self, with_solver):
        import tvm
        from tvm import tirx
        from tvm.sym import Analyzer, analyzer

        self.tirx, self.make = tirx, Analyzer
        strengths = analyzer.ProofStrength
        self.strength = strengths.SYMBOLIC_BOUND if with_solver else strengths.DEFAULT
        enabled = Analyzer().is_z3_enabled
        solver = "with its z3" if enabled else "symbolic bounds, built without z3"
        self.name = f"TVM {tvm.__version__}, " + (solver if with_solver else "native")

    def answers(self, _path, cases):
        return [self.answer(case) for case in cases]

    def answer(self, case):
        variables = {name: self.tirx.Var(name, "int64") for name in case["vars"]}
        translate = Translation(self.tirx, variables)
        try:
            read = lambda text: translate.visit(ast.parse(text.strip(), mode="eval"))
            known = [read(text) for text in case["assume"]]
            query = read(case["query"])
            negation = self.tirx.Not(query)
        except Exception:  # TVM folds while it builds, and refuses some constants.
            return "not read", 0.0
        start = time.perf_counter_ns()
        answer = "unknown"
        with contextlib.ExitStack() as scopes:
            try:
                analyzer = self.make()
                for fact in known:
                    scopes.enter_context(analyzer.constraint_scope(fact))
                proved = analyzer.can_prove(query, self.strength)
                elapsed = time.perf_counter_ns() - start
                if proved:
                    answer = "proved"
                elif analyzer.can_prove(negation, self.strength):
                    answer = "negation"
            except Exception:  # Some questions end in an internal error of TVM.
                answer, elapsed = "error", time.perf_counter_ns() - start
        return answer, elapsed / 1000


def row(name, cases, answers):
    true = [a for case, (a, _) in zip(cases, answers) if case["expect"] == "proved"]
    false = [a for case, (a, _) in zip(cases, answers) if case["expect"] == "refuted"]
    times = sorted(micros for answer, micros in answers if answer != "not read")
    percent = lambda part, whole: f"{part} ({100 * part / max(len(whole), 1):.1f} %)"
    p99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    cells = [
        name,
        percent(true.count("proved"), true),
        percent(false.count("refuted") + false.count("negation"), false),
        str(false.count("proved") + true.count("refuted")),
        f"{statistics.median(times):.1f}",
        f"{p99:.0f}",
        f"{times[-1]:.0f}",
    ]
    odd = sum(a in ("error", "not read") for a, _ in answers)
    return "| " + " | ".join(cells) + " |", odd


def report(path, cases, provers):
    true = sum(case["expect"] == "proved" for case in cases)
    lines = [
        f"{len(cases)} questions: {true} true, {len(cases) - true} false. Times in microseconds.",
        "",
        "| prover | true ones proved | false ones refuted | wrong answers | median | p99 | max |",
        "|---|---|---|---|---|---|---|",
    ]
    notes = []
    for prover in provers:
        line, odd = row(prover.name, cases, prover.answers(path, cases))
        lines.append(line)
        if odd:
            notes.append(f"{prover.name}: {odd} questions ended in an internal error or were not read.")
    return "\n".join(lines + [""] * bool(notes) + notes) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--relax", default=str(ROOT / "target/release/relax"))
    parser.add_argument("--cases", default=str(ROOT / "symbolic/tests/arith_cases.jsonl"))
    parser.add_argument("--output", help="also write the table to this file")
    arguments = parser.parse_args()
    cases = read_cases(arguments.cases)
    provers = [Ours(arguments.relax, False), Ours(arguments.relax, True)]
    try:
        provers += [Tvm(with_solver=False), Tvm(with_solver=True)]
    except ImportError as missing:
        print(f"TVM is left out: {missing}", file=sys.stderr)
    text = report(arguments.cases, cases, provers)
    print(text, end="")
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
