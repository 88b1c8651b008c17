//! The codes of deduction (RX0203, RX0220–), of well-formedness (RX03xx) and of operators (RX05xx).

relax_syntax::diagnostic_codes! {
    ANNOTATION_WRONG = "RX0203", "an annotation that the value does not have",
        "What is deduced of the value contradicts the annotation, for the dims shown.\n\n    def f(x: Tensor((\"n\",), \"f32\")):\n        n = sym_var()\n        y: Tensor((n + 1,), \"f32\") = exp(x)   # RX0203: n = 0: 0 vs 1\n        return y\n\nCorrect the annotation, or leave it out.";
    ANNOTATION_UNDECIDED = "RX0221", "an annotation that is not decided at compile time",
        "Nothing shows that the value has the annotation, and nothing shows that it has not. Write `v = match_cast(e, annotation)`: the value is checked when the program runs, and from there on the annotation is known.";
    ARGUMENT = "RX0222", "an argument that a function cannot take",
        "What is deduced of the argument contradicts the parameter's annotation, or the number of arguments is wrong. What is merely not decided is checked when the program runs.";
    RESULT = "RX0223", "a result that contradicts the declared one",
        "What is deduced of the operand of `return` contradicts the annotation after `->`.";
    NOT_CALLABLE = "RX0224", "a call of something that is no function",
        "Only functions of the module, closures and operators are called.";
    RECURSION = "RX0225", "a recursive function without a declared result",
        "The result of a function that calls itself, directly or through others, can't be deduced: declare it with `->`.";
    FIELD = "RX0226", "a field that a tuple does not have",
        "`t[i]` takes field `i` of a tuple, counted from 0.";
    CAST = "RX0227", "a match_cast that always fails",
        "What is deduced of the value contradicts the annotation for all dims.";
    CONDITION = "RX0228", "a condition that is no bool scalar",
        "The condition of an `if` is a tensor of dtype bool without dims, `Tensor((), \"bool\")`, or a `Prim(\"bool\")`.";
    MESH = "RX0229", "a layout that its mesh does not have",
        "`DTensor(…, \"mesh[0]\", \"S[0], R\")`, `redistribute` and loops over shards name a mesh. `module_attr(\"mesh[0]\", \"2, 4\")` declares one, here of two axes with 2 and 4 workers. A layout has one placement an axis of the mesh, and an axis of a tensor is cut along one axis of the mesh at most.";
    OTHER_PART = "RX0230", "an access to the part of another worker",
        "In a loop over the workers of a mesh axis (`shard`), worker i has the rows from i * c to (i + 1) * c of a tensor of n rows that is cut along that axis, where c = ceildiv(n, workers). It reads and writes no others. `redistribute` gives each worker the rows that it needs. Where it cannot be proved that an access stays in the part, the code is a warning.";
    PARTIAL = "RX0231", "a partial tensor that is not reduced",
        "With the placement `P(sum)` each worker has a term of the tensor. A function returns no partial tensor, and an operator takes one only where its results on the terms add up to its result: `add` of two, `matmul` of one, but not `relu`. `redistribute(x, \"mesh[0]\", \"R\")` reduces it. The same holds of `P(max)` and `P(min)`.";

    DATAFLOW_CONTENT = "RX0301", "something in a dataflow block that does not belong there",
        "A dataflow block is pure and has no control flow: no `if`, no nested function, no call with an effect.";
    UNBOUND_DIM = "RX0302", "a symbolic variable without a value",
        "A symbolic variable gets its value where it stands alone as a dim: in a parameter's annotation, or in a `match_cast`. Here it is used before that, or nothing ever binds it. (`\"n * 2\"` in a parameter checks, it does not bind `n`.)";
    NESTED_FUNCTION = "RX0303", "a nested function after phase P0",
        "From P0 on no function is nested in another: lambda lifting has moved them to the top level.";
    DATAFLOW_PHASE = "RX0304", "a dataflow block after phase P2.1",
        "From P2.1 on there is no dataflow block.";
    CALL_TIR_PHASE = "RX0305", "call_tir or call_dps_library after phase P2.1",
        "From P2.1 on tensor programs and library functions are called in destination-passing style, on memory that is allocated explicitly.";
    OPERATOR_PHASE = "RX0306", "a tensor operator after phase P2.1",
        "From P2.1 on only built-ins are called: memory, shape heap, and the virtual machine's own.";
    SYMBOLIC_PHASE = "RX0307", "a symbolic expression after phase P2.3",
        "From P2.3 on sizes live in the shape heap: no symbolic expression is left.";
    PHASE_NAME = "RX0308", "an unknown phase",
        "`module_attr(\"phase\", ...)` names one of P0, P1, P2.1, P2.2, P2.3.";
    UNKNOWN_GLOBAL = "RX0309", "a name used as something that it is not",
        "A tensor program is passed to `call_tir`; on a line of its own it is called in destination-passing style.";
    EFFECT = "RX0310", "a pure function with an effect",
        "A function with `func_attr(\"purity\", \"pure\")` calls nothing that has an effect. Without this line a function is pure when nothing that it calls has an effect.";
    PATTERN = "RX0311", "a text that is no pattern of operators",
        "`module_attr(\"pattern.NAME\", \"…\")` names a function of a library and the calls of operators that it computes: `relu(matmul(x, w)) where dim(x, 0) >= 2`. Passes that look for patterns read it.";
    BY_NAME = "RX0312", "a call by name of what the pipeline compiles",
        "`builtin.call_operator(\"exp\", x)` and `builtin.run_operator` call the reference library. From P2.1 on they are for operators and tensor programs that the pipeline cannot compile: without a tensor program, or with dims or dtypes that are not known. This call has a tensor program: `relax opt --to P2.1` makes it of `exp(x)`.";
    OUTSIDE = "RX0313", "a tensor outside of its storage",
        "From P2.1 on memory is explicit. A tensor ends beyond its storage, or begins before it, for the dims shown. Take a larger storage, or correct the offset.";
    OVERLAP = "RX0314", "a tensor over another one that is in use",
        "Two tensors share bytes of a storage, and both are in use, for the dims shown. Give one of them another offset, or release the first before the second is allocated.";
    AFTER_RELEASE = "RX0315", "a use after the release",
        "A tensor or storage is used, returned or released again after its release. Release it once, after its last use.";
    LEAK = "RX0316", "a storage that is never released",
        "From P2.1 on releases are explicit. On some way through the function nothing releases this storage, and no tensor in it leaves the function. Write `memory.kill_storage(s)` after the last use of the tensors in it.";
    OPEN = "RX0317", "a demand of the phase that is not decided",
        "`relax check` neither proves nor refutes that this place meets a demand of P2.1 or later. A size or place is not a dim of the text, the prover gives no answer, or a call does something that is not followed. The interpreter checks memory when the program runs.";
    DIRECTION = "RX0318", "a pass on a module of a later phase",
        "Passes lower a module from phase to phase, and none leads back. The module records a phase after the last one that this pass takes, or after the one that `--to` names. `relax opt --list-passes` shows the phases of each pass. Start from the text of the earlier phase.";
    HIDDEN_OPERATOR = "RX0319", "a function with the name of an operator",
        "A call of this name is one of the function of the module, so that a program keeps its meaning when the language gets an operator of that name. `relax.exp(x)` is always a call of the operator `exp`. Give the function another name, or keep it: this is a warning.";
    DONATED = "RX0320", "a donated name that is no tensor parameter",
        "`func_attr(\"donated\", \"keys, values\")` lists parameters, separated by commas. A caller gives up their arguments, so the function may overwrite their memory. Each name is a parameter of the function, and a tensor. Nested functions have none, since they are called where their name is not known. Where an argument is not the caller's own it is copied; its dtype must be known for that: write `match_cast`.";

    GRADIENT = "RX0321", "a program that cannot be differentiated",
        "The pass `gradient` needs a function whose result is a float tensor of rank 0, alone or as the first field of a tuple, and parameters that are float tensors. Each operator between them must have an adjoint; `docs/TRAINING.md` lists those without one, and why. The message names the call and the reason.";
    SHARDING = "RX0322", "a function that is not sharded",
        "`relax shard` and `relax run --ranks` take functions of operator calls, `if` and `match_cast` on tensors with known dims, over one mesh. The message names the place, and what is not supported there: nested functions, calls of tensor programs and of functions that cannot be inlined, tensors of unknown dims, a redistribution to a partial tensor. Such a program still runs on one device.";

    CONSTRAINT = "RX0501", "operands that an operator refuses",
        "A numbered constraint of the operator is violated, for all dims. `relax ops NAME` lists the constraints; `relax explain NAME/C1` shows one.";
    OPERAND_KIND = "RX0502", "an operand of the wrong kind",
        "The operator takes something else there: a tensor, a shape, a literal, the name of a dtype. `relax ops NAME` shows the parameters.";
    ARGUMENTS = "RX0503", "arguments that do not fit an operator's parameters",
        "Too many, missing, given twice, or under a name that the operator does not have. `relax ops NAME` shows the parameters.";
    UNKNOWN_OPERATOR = "RX0504", "an unknown operator",
        "Neither the module nor the table of operators has a function of this name. `relax ops` lists the operators.";
    FALLBACK = "RX0505", "an operator that stays with the reference library",
        "`relax build` makes no kernel for this call: the interpreter computes it when the program runs, which is many times slower. The message says why: the operator has no tensor program, its dims or dtype are not known, or the library function is unknown. A `match_cast` with dims tells them. `--deny-fallback` makes an error of it.";
}
