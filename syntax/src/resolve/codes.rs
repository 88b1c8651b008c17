//! The codes of name resolution (RX0201–RX0249).

crate::diagnostic_codes! {
    DUPLICATE_DEFINITION = "RX0201", "two definitions have the same name",
        "Functions and tensor programs of a module share one space of names.\n\n    def f(x: Object):\n        return x\n    def f(y: Object):   # RX0201\n        return y\n\nRename one of them.";
    UNKNOWN_NAME = "RX0202", "a name that nothing binds",
        "A variable must be bound before it is used, by a parameter, a binding or `sym_var()`. Names bound in a dataflow block are seen after it only when `output(...)` lists them; names bound in one branch of an `if` only when the other branch binds them too.";
    NOT_AN_ANNOTATION = "RX0204", "not an annotation",
        "An annotation is one of `Object`, `Prim(\"i64\")`, `Shape([n, 4])`, `Shape(ndim=2)`, `Tensor((n, 4), \"f32\")`, `Tensor(ndim=2, dtype=\"f32\")`, `Tuple[A, B]`, `Callable([P], R)`, `DTensor((n, 4), \"f32\", \"mesh[0]\", \"S[0], R\")`.";
    RETURN_PLACE = "RX0205", "`return` is missing or out of place",
        "A function ends with one `return`, and nothing follows it. The branches of an `if` do not return: both bind the same name, and the function returns that.";
    NOT_A_DIM = "RX0206", "not a symbolic expression",
        "A dim is built from integer literals, symbolic variables, `+ - * // %`, `min`, `max` and `ceildiv`, and every literal fits i64. In a signature it is quoted: `Tensor((\"n * 2\",), \"f32\")`.";
    STATEMENT = "RX0207", "a statement that does not belong here",
        "At the top level stand `def` and `module_attr(key, value)`; in a graph function bindings, `with dataflow():`, `if`/`else`, nested `def`, `func_attr`, calls and `return`. Loops and stores belong into a tensor program, marked `@tensorir_function`.";
    UNDECLARED_DIM = "RX0208", "a symbolic variable that is not declared",
        "A symbolic variable is declared by standing quoted in a parameter's annotation, or by `n = sym_var()`.\n\n    def f(x: Tensor((\"n\",), \"f32\")):\n        m = sym_var()\n        y = match_cast(x, Tensor((m,), \"f32\"))\n        return y";
    SYM_VAR = "RX0209", "a `sym_var` line that makes no sense",
        "`n = sym_var()` declares a variable or, for one of the signature, adds facts: `lower_bound=`, `upper_bound=`, `multiple_of=`, each a literal integer and given once; `multiple_of` is at least 1, and some value must satisfy all of them.";
    CONSTANT = "RX0210", "a constant that makes no sense",
        "`const(value, dtype)` takes a number, a bool, or nested lists of them that form a box, and the name of a dtype that can hold every element.";
    EXTERNAL = "RX0211", "an external constant that makes no sense",
        "`param(\"name\", Tensor((384, 1536), \"f32\"))` names a tensor of the file given by `--params` (safetensors or GGUF); its annotation has literal dims and a dtype.";
    BOUND_TWICE = "RX0212", "a name that is bound twice",
        "Within a function each name is bound once (the two branches of an `if` bind the same names, that is one binding). Use a new name.";
    OUTPUT = "RX0213", "an `output` that makes no sense",
        "`output(a, b)` stands last in a `with dataflow():` block, once, and lists variables that the block binds. It may be left out: then what is used after the block is its output.";
    ATTRIBUTE = "RX0214", "an attribute that makes no sense",
        "`func_attr(key, value)` and `module_attr(key, value)` take a string and a string, integer, float or bool; a key is given once.";
    CALL_FORM = "RX0216", "a call that is not put together right",
        "`match_cast(value, annotation)`, `call_tir(program, [args], Tensor(...))` or with `out_shape=` and `dtype=`, `shape(n, 4)`, `output(...)` and their like have forms of their own.";
    EXPRESSION = "RX0217", "an expression that does not belong here",
        "Operands of the graph level are variables, calls, tuples, lists, `t[0]`, `shape(...)`, constants and symbolic expressions. Arithmetic on tensors is written with operators of the table: `add(x, y)`, not `x + y`.";
    PARAMETER = "RX0218", "a parameter without an annotation",
        "Every parameter has an annotation; `Object` says that any value will do.";
    DECORATOR = "RX0219", "an unknown decorator",
        "The only decorator is `@tensorir_function`, which marks a tensor program.";
}
