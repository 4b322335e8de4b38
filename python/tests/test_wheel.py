"""The wheel in a clean environment: pytest is not needed, `python test_wheel.py` runs all."""
import array
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import collcost

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_it_prices_the_main_question():
    answer = collcost.price("allreduce", "16MiB", n=64, on="dgx-h100")
    assert answer["schema"] == "collcost/cost/2"
    expect = answer["expect"]
    assert expect["runs"]["algorithm"] == "NVLSTree" and 150e-6 < expect["time_s"] < 400e-6, expect
    ring = collcost.price("all_reduce", 10**9, 64, alpha="5us", bw="100GB/s", algorithm="ring")
    # 2·63·5 µs + 2·63/64·10 ms
    assert abs(ring["expect"]["time_s"] - 20.3175e-3) < 1e-9, ring["expect"]


def test_what_says_nothing_is_refused():
    for wrong in ({"n": 0}, {"n": -1}, {"n": 8, "nodes": 0}, {"n": 8, "gpus_per_node": 0}, {"n": 10**8}):
        try:
            collcost.price("allreduce", "16MiB", on="dgx-h100", **wrong)
        except collcost.Error:
            continue
        raise AssertionError(wrong)
    for time in (float("nan"), -1.0, 0.0):
        try:
            collcost.compare("allreduce", [1 << 30], [time], on="dgx-h100", n=8)
        except collcost.Error:
            continue
        raise AssertionError(time)
    for collective, sizes, n in (("allreduce", [1 << 30], 1), ("allreduce", [0], 8), ("barrier", [1 << 20], 8),
                                 ("allreduce", [1, 2], 8), ("allreduce", [-1.0], 8)):
        try:
            collcost.compare(collective, sizes, [5e-3], on="dgx-h100", n=n)
        except collcost.Error:
            continue
        raise AssertionError((collective, sizes, n))


def test_what_users_hand_over_is_read():
    on = {"on": "dgx-h100", "n": 64}
    assert "dgx-h100" in collcost.names("machines") and "n" in collcost.names("parameters")
    texts = collcost.times("allreduce", ["16MiB", 1 << 24], **on)["time_s"]
    assert texts[0] == texts[1]
    typed = collcost.compare("allreduce", ["1GiB"], ["5.2ms"], on="dgx-h100", n=8)
    assert typed == collcost.compare("allreduce", [1 << 30], [5.2e-3], on="dgx-h100", n=8)
    budgets = ROOT / "tests/data/budgets/collcost.toml"
    assert collcost.check(budgets)["held"] == 5
    assert collcost.times("allreduce", array.array("H", [4096]), **on)["time_s"][0] > 0
    for wrong in (lambda: collcost.expect("allreduce", 1, on="dgx-h100", profile="dgx-a100"),
                  lambda: collcost.price("allreduce", 1, None), lambda: collcost.names("nothing"),
                  lambda: collcost.times("allreduce", [2**2000], **on),
                  lambda: collcost.expect("allreduce", 10**5000, **on),
                  lambda: collcost.choose("allreduce", 0, **on), lambda: collcost.crossover("barrier", **on)):
        try:
            wrong()
        except collcost.Error:
            continue
        raise AssertionError("nothing was refused")


def test_one_number_is_judged_as_by_the_command():
    said = command("compare", "allreduce", "--size", "1GiB", "--time", "7.5ms", "-n", "8", "--on", "dgx-h100")
    own = collcost.compare("allreduce", [1 << 30], [7.5e-3], on="dgx-h100", n=8)
    assert own["causes"] == said["runs"][0]["causes"], own


def test_it_checks_budgets():
    result = collcost.check(str(ROOT / "tests/data/budgets/collcost.toml"))
    assert result["faults"] == [] and result["failed"] == 0 and result["held"] == 5


def command(*words):
    """What the command beside the module answers, as JSON."""
    path = pathlib.Path(sys.executable).parent / "collcost"
    done = subprocess.run([path, *words, "--format", "json"], capture_output=True, text=True)
    assert done.returncode < 2, done.stderr
    return json.loads(done.stdout)


def test_figures_equal_the_commands_to_the_bit():
    own = collcost.expect("allreduce", "16MiB", on="dgx-h100", n=64)
    said = command("allreduce", "16MiB", "-n", "64", "--on", "dgx-h100")["expect"]
    assert own == said, (own, said)
    ring = collcost.simulate("allreduce", 10**6, "ring", alpha="1us", bw="1GB/s", n=4)
    assert abs(ring["time_s"] - 1506e-6) < 1e-12 and ring["messages"] == 24, ring
    sizes = [1, 4096, 1 << 20, 123456789]
    many = collcost.times("allreduce", sizes, on="dgx-h100", n=64)
    for i, size in enumerate(sizes):
        one = command("allreduce", str(size), "-n", "64", "--on", "dgx-h100")["expect"]
        assert [many[k][i] for k in ("time_s", "low_s", "high_s")] == [
            one[k] for k in ("time_s", "low_s", "high_s")]


def test_every_function_of_the_facade_answers():
    on = {"on": "dgx-h100", "n": 64}
    assert collcost.machine("h100")["name"] == "dgx-h100"
    assert collcost.ideal("allreduce", "1GB", **on)[0]["time_s"] > 0
    assert collcost.choose("allreduce", 64 << 20, on="dgx-h100", n=8)["name"] == "NVLS/Simple"
    assert collcost.explain("allreduce", "1MiB", "ring", on="dgx-h100", n=8)["schema"] == "collcost/explain/1"
    slow = collcost.compare("allreduce", [1 << 30], [50e-3], on="dgx-h100", n=8)
    assert (slow["verdict"], slow["health"], len(slow["points"])) == ("ill", "slow", 1), slow
    # One small size shows no fault and proves no health: the command ends with 3.
    vague = collcost.compare("allreduce", [4096], [25e-6], on="dgx-h100", n=8)
    assert (vague["verdict"], vague["health"]) == ("cannot tell", "healthy"), vague
    assert len(collcost.crossover("allreduce", **on)["runs"]) > 1
    assert len(collcost.bucket([4 << 20] * 20, "ddp", **on)["buckets"]) > 1
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plan.toml"
        file.write_text('[step.a]\npreset = "fsdp-7b"\n')
        assert collcost.plan(str(file))["steps"][0]["step_s"] > 0
        serve = pathlib.Path(folder) / "serve.sh"
        serve.write_text("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192\n")
        assert collcost.server(serve, machine="dgx-h100")["fits"]
        job = pathlib.Path(folder) / "job.toml"
        job.write_text('model = "llama3-8b"\ngpus = 8\nsharding = "zero1"\nbatch = { global = 64, sequence = 4096 }\n')
        assert collcost.jobs(job, machine="dgx-h100", micro_batch=2)["jobs"][0]["gpus"] == 8
        own = pathlib.Path(folder) / "m.toml"
        own.write_text('schema = 1\nname = "m"\ntitle = "m"\nnode = "hgx-h100"\n')
        assert collcost.machine(str(own))["origin"] == str(own)
    assert collcost.machine("h100")["origin"] == "built in"


def test_arrays_come_back_as_they_came():
    sizes = [1 << i for i in range(10, 30)]
    known = collcost.times("allreduce", sizes, on="dgx-h100", n=64)
    assert isinstance(known["time_s"], list)
    for code in "qQd":
        found = collcost.times("allreduce", array.array(code, sizes), on="dgx-h100", n=64)
        assert isinstance(found["time_s"], array.array) and found["time_s"].tolist() == known["time_s"]
    try:
        import numpy
    except ImportError:
        print("numpy is missing: not tested with its arrays")
    else:
        found = collcost.times("allreduce", numpy.array(sizes), on="dgx-h100", n=64)["time_s"]
        assert isinstance(found, numpy.ndarray) and found.dtype == "f8" and found.tolist() == known["time_s"]
    for wrong in [[-1], [0.5], array.array("b", [1]), ["x"]]:
        try:
            collcost.times("allreduce", wrong, on="dgx-h100", n=64)
        except (TypeError, ValueError):
            pass
        else:
            raise AssertionError(f"{wrong} was taken")


def test_many_sizes_at_once():
    count = 10**6 if "COLLCOST_FULL" in os.environ else 10**5
    for name, kind in [("a list", list), ("an array", lambda it: array.array("q", it))]:
        sizes = kind(range(1 << 20, (1 << 20) + 64 * count, 64))
        # What the last one answered is not freed within the time of this one.
        found = None
        start = time.perf_counter()
        found = collcost.times("allreduce", sizes, on="dgx-h100", n=64)
        spent = time.perf_counter() - start
        assert len(found["time_s"]) == count
        print(f"{count} sizes of {name}: {1e3 * spent:.0f} ms")


def test_the_notebook_and_the_pages_run():
    book = json.loads((ROOT / "python/examples/allreduce.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 4
    pages = []
    for page in ["python/README.md", "docs/how-to/call-from-a-program.md"]:
        blocks = (ROOT / page).read_text().split("```python\n")[1:]
        pages.append([block.split("```")[0] for block in blocks])
    assert [len(blocks) for blocks in pages] == [2, 1]
    here = os.getcwd()
    # The budgets that the pages check.
    os.chdir(ROOT / "tests/data/budgets")
    try:
        for blocks in [cells, *pages]:
            known = {}
            for block in blocks:
                exec(block, known)
    finally:
        os.chdir(here)


def test_errors_are_values():
    for wrong in [lambda: collcost.price("allreduce", "16Mb", 8), lambda: collcost.price("nope", 1, 8),
                  lambda: collcost.price("allreduce", 1, 8, on="no-such-machine"),
                  lambda: collcost.check("no-such-file.toml")]:
        try:
            wrong()
        except collcost.Error as error:
            assert isinstance(error, ValueError) and len(str(error).splitlines()) > 1
        else:
            raise AssertionError("nothing was refused")
    # Numbers of Python are read by their value.
    whole = collcost.expect("allreduce", "1MiB", n=8)
    assert collcost.expect("allreduce", "1MiB", n=8.0, relay_chunks=True)["time_s"] == whole["time_s"]


def test_the_examples_of_the_pages_run():
    os.chdir(ROOT / "tests/data/budgets")
    for page in ["python/README.md", "docs/how-to/call-from-a-program.md"]:
        known = {}
        blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
        assert blocks, page
        for block in blocks:
            exec(compile(block, page, "exec"), known)


def test_it_is_quick_to_import():
    spent = []
    for _ in range(5):
        code = "import time; t = time.perf_counter(); import collcost; print(time.perf_counter() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        spent.append(float(done.stdout))
    print(f"import: {1e3 * min(spent):.1f} ms")


def test_the_command_comes_with_it():
    command = pathlib.Path(sys.executable).parent / "collcost"
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"collcost {collcost.__version__}"


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: ok")
