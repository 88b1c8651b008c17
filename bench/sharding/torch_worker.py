"""PyTorch's DTensor on processes of this machine (gloo): prints a line of JSON a size. Arguments: number of the program, processes."""

import json
import multiprocessing
import os
import queue
import sys
import tempfile
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from programs import PROGRAMS, expected, verdict

#: Seconds for one size.
LIMIT = 60


def rank(number, size, own, workers, store, answers):
    torch.set_num_threads(1)
    program, arrays = PROGRAMS[number], PROGRAMS[number].inputs(size)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=own, world_size=workers)
    try:
        mesh = init_device_mesh("cpu", (workers,))
        tensors = [
            distribute_tensor(torch.from_numpy(array), mesh, [Replicate() if cut is None else Shard(cut)])
            for array, cut in zip(arrays.values(), program.cuts)
        ]
        result = program.torch(torch, *tensors)
        whole = result.full_tensor().numpy()
        answers.put((own, verdict(whole, expected(program, arrays))))
    except Exception as error:  # What is refused is what is asked.
        first = str(error).strip().splitlines() or [type(error).__name__]
        answers.put((own, f"refused: {type(error).__name__}: {first[0]}"))


def one(number, size, workers):
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    with tempfile.TemporaryDirectory() as folder:
        given = (workers, os.path.join(folder, "store"), answers)
        ranks = [fork.Process(target=rank, args=(number, size, own, *given)) for own in range(workers)]
        for process in ranks:
            process.start()
        found, until = {}, time.monotonic() + LIMIT
        while len(found) < workers and not any(said != "right" for said in found.values()):
            try:
                own, said = answers.get(timeout=0.2)
                found[own] = said
            except queue.Empty:
                died = [process.exitcode for process in ranks if process.exitcode not in (None, 0)]
                if died:
                    found[-1] = f"crashed: a rank ended with {died[0]}"
                elif time.monotonic() > until:
                    found[-1] = f"crashed: no answer in {LIMIT} s"
        for process in ranks:
            process.kill()
    # All ranks must have the whole result.
    return next((said for said in found.values() if said != "right"), "right")


def main():
    number, workers = int(sys.argv[1]), int(sys.argv[2])
    print(json.dumps({"version": torch.__version__}))
    for size in PROGRAMS[number].sizes:
        print(json.dumps({"size": size, "said": one(number, size, workers)}), flush=True)


main()
