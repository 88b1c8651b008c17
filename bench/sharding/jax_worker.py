"""JAX on devices that XLA makes of this processor: prints a line of JSON a size. Arguments: number of the program, devices, how.

`put`: inputs are placed by `device_put` with a `NamedSharding`, as the tutorial on sharded computation does. `constraint`: inputs are
whole, and `with_sharding_constraint` in the compiled function asks for the layout.
"""

import json
import os
import sys

number, workers, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={workers}"

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from programs import PROGRAMS, expected, verdict

jax.config.update("jax_enable_x64", True)


def one(program, size):
    arrays = program.inputs(size)
    mesh = jax.make_mesh((workers,), ("rank",), axis_types=(jax.sharding.AxisType.Auto,))
    layouts = [
        NamedSharding(mesh, PartitionSpec(*(["rank" if axis == cut else None for axis in range(array.ndim)])))
        for array, cut in zip(arrays.values(), program.cuts)
    ]

    def function(*given):
        if how == "constraint":
            given = [jax.lax.with_sharding_constraint(x, layout) for x, layout in zip(given, layouts)]
        return program.jax(jax, *given)

    try:
        given = list(arrays.values())
        if how == "put":
            given = [jax.device_put(x, layout) for x, layout in zip(given, layouts)]
        return verdict(np.asarray(jax.jit(function)(*given)), expected(program, arrays))
    except Exception as error:  # What is refused is what is asked.
        first = str(error).strip().splitlines() or [type(error).__name__]
        return f"refused: {type(error).__name__}: {first[0]}"


print(json.dumps({"version": jax.__version__}))
for size in PROGRAMS[number].sizes:
    print(json.dumps({"size": size, "said": one(PROGRAMS[number], size)}), flush=True)
