"""The wheel in a clean environment: pytest is not needed, `python test_wheel.py` runs all."""
import pathlib
import subprocess
import sys
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


def test_it_checks_budgets():
    result = collcost.check(str(ROOT / "tests/data/budgets/collcost.toml"))
    assert result["faults"] == [] and result["failed"] == 0 and result["held"] == 5


def test_errors_are_values():
    for wrong in [lambda: collcost.price("allreduce", "16Mb", 8), lambda: collcost.price("nope", 1, 8),
                  lambda: collcost.price("allreduce", 1, 8, on="no-such-machine")]:
        try:
            wrong()
        except collcost.Error as error:
            assert isinstance(error, ValueError) and len(str(error).splitlines()) > 1
        else:
            raise AssertionError("nothing was refused")
    faults = collcost.check("no-such-file.toml")["faults"]
    assert len(faults) == 1 and "cannot be read" in faults[0]["what"]


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
