"""A small model trained with DDP over Gloo: leaves each rank's profiler trace and flight recorder.

Started by `run` beside it, once per rank, with the variables of torchrun."""

import os
import sys

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as recorder
from torch.nn.parallel import DistributedDataParallel

OUT, STEPS, WARM_UP = sys.argv[1], int(sys.argv[2]), 3


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    sides = [1024, 2048, 2048, 256]
    layers = []
    for wide, high in zip(sides, sides[1:]):
        layers += [torch.nn.Linear(wide, high), torch.nn.ReLU()]
    # Two buckets, so that more than one size is seen.
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        model(torch.randn(32, sides[0])).square().mean().backward()
        optimizer.step()

    for _ in range(WARM_UP):
        step()
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=cpu, record_shapes=True) as profile:
        for _ in range(STEPS):
            step()
    profile.export_chrome_trace(os.path.join(OUT, f"trace_rank{rank}.json"))
    # Over Gloo nothing dumps the recorder by itself.
    dumps = [("pickle", recorder._dump_fr_trace()), ("json", recorder._dump_fr_trace_json())]
    for ending, dump in dumps:
        with open(os.path.join(OUT, f"recorder_rank{rank}.{ending}"), "wb") as file:
            file.write(dump if isinstance(dump, bytes) else dump.encode())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
