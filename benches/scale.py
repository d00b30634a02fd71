#!/usr/bin/env python3
"""Makes everything larger, and fails if the cost of an item grows with it.

    cargo build && benches/scale.py [-x FACTOR] [NAME...]

The cost is the processor time of the process itself, without its commands, so that a busy machine does not matter. FACTOR
makes all sizes larger. All is told that is measured.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
THROTTLE = os.environ.get("THROTTLE", os.path.join(HERE, "..", "target", "debug", "throttle"))

TIMES = (1, 2, 8)
REPEATS = 3

# The factor by which the cost of an item may grow. A cost in proportion to the size would grow eightfold.
MOST = 3

UNLIMITED = ["-r", "1T/s"]
FAILS_ONCE = ["--", "sh", "-c", "[ $THROTTLE_ATTEMPT = 2 ]"]


def numbers(count):
    return b"".join(b"%d\n" % number for number in range(count))


def cost(args, content, environment=None):
    """The processor time of one run, in seconds."""
    with tempfile.TemporaryFile() as stdin:
        stdin.write(content)
        stdin.seek(0)
        process = subprocess.Popen([THROTTLE, *args], stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env={**os.environ, **(environment or {})})
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        seconds = own_time(process.pid)
        told = process.communicate()[1]
        assert process.returncode == 0, (args, told)
    return seconds


def own_time(pid):
    """The processor time of a process that has ended but is not reaped. Unlike wait4's, it excludes children."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as schedstat:
        return int(schedstat.read().split()[0]) / 1e9


# Each function takes a size and returns the arguments, the input, and the number of items that share the cost.

def batch(size, _):
    return [*UNLIMITED, "-B", str(size), "--pipe", "--", "true"], numbers(2 * size), 2 * size


def batch_of_arguments(size, _):
    return [*UNLIMITED, "-B", str(size), "--", "true"], numbers(2 * size), 2 * size


def batch_with_costs(size, _):
    return ["-r", "1T/s,cost=bytes", "-B", f"{size},1h", "--dry-run"], numbers(2 * size), 2 * size


def batch_retried(size, _):
    args = [*UNLIMITED, "-B", f"{size},1h", "--retries", "1", "--pipe", *FAILS_ONCE]
    return args, numbers(2 * size), 2 * size


def keys(size, _):
    return ["-r", "1T/s", "-r", "1/h,key=col:1"], numbers(size), size


def keys_shared(size, _):
    """All keys wait for the store. The margin keeps slots good long enough even on a slow machine."""
    args = ["-s", "keys", "--lookahead", str(size), "-r", "1/h,margin=20s,key=col:1"]
    return args, numbers(size), size


def lanes(size, _):
    """Every key waits to release its second item."""
    args = ["--dry-run", "--lookahead", str(2 * size), "-r", "1T/s", "-r", "1/h,key=col:1"]
    return args, 2 * numbers(size), 2 * size


def lanes_in_order(size, _):
    """Outputs are printed in input order while items wait in many lanes."""
    args = ["-k", "-j", "2", "--lookahead", str(size), "-r", f"{4 * size}/s", "-K", "col:1", "--", "true"]
    return args, numbers(size), size


def held_outputs(size, _):
    return [*UNLIMITED, "-k", "-j", "2", "--", "sh", "-c", "[ $THROTTLE_SEQ != 1 ] || sleep 2"], numbers(size), size


def retries_in_backoff(size, _):
    args = [*UNLIMITED, "-j", "4", "--retries", "1", "--backoff", "1..2", "--lookahead", str(size), *FAILS_ONCE]
    return args, numbers(size), size


def retries_in_order(size, _):
    args = [*UNLIMITED, "-k", "-j", "4", "--retries", "1", "--backoff", "1..2", *FAILS_ONCE]
    return args, numbers(size), size


def limits(size, _):
    return ["--dry-run", *(size * ["-r", "1T/s,key=col:1"])], numbers(2000), 2000 * size


def states(size, folder):
    directory = os.path.join(folder, "throttle")
    os.makedirs(directory)
    for number in range(size):
        for end in ["", "-wal", "-shm"]:
            open(os.path.join(directory, f"{number}{end}"), "wb").close()
    return ["--status"], b"", size


def log_to_resume(size, folder):
    log = os.path.join(folder, "log")
    with open(log, "wb") as file:
        file.write(b"seq\tstart\twait\truntime\tattempt\texit\tsignal\titem\n")
        file.writelines(b"%d\t1.000000000\t0.000\t0.000\t1\t0\t0\t%d\n" % (number + 1, number) for number in range(size))
    return [*UNLIMITED, "--log", log, "--resume", "--", "true"], numbers(size), size


WAYS = {
    batch: 8000, batch_of_arguments: 8000, batch_with_costs: 8000, batch_retried: 4000, keys: 8000,
    keys_shared: 500, lanes: 2000,
    lanes_in_order: 50, held_outputs: 50, retries_in_backoff: 50, retries_in_order: 50, limits: 4, states: 1000,
    log_to_resume: 8000,
}


def cost_of(way, size):
    """The cost of each item, less the cost of an empty run."""
    def run(size):
        with tempfile.TemporaryDirectory() as folder:
            args, content, count = way(size, folder)
            return cost(args, content, {"XDG_STATE_HOME": folder}), count
    # All at once: they spend most of their time waiting.
    with ThreadPoolExecutor(REPEATS) as pool:
        costs, counts = zip(*pool.map(run, REPEATS * [size]))
    return (statistics.median(costs) - BASE) / counts[0]


def grows(way, size):
    """Measures and prints the costs. Returns whether they grow too much."""
    costs = [cost_of(way, size * times) for times in TIMES]
    # Guards against a first cost that is lost in the noise.
    growth = costs[-1] / max(costs[0], costs[1] / 2, 1e-9)
    told = ", ".join(f"{cost * 1e6:.2f}" for cost in costs)
    sizes = ", ".join(str(size * times) for times in TIMES)
    print(f"{way.__name__}: {told} us each for {sizes}: x {growth:.2f}", flush=True)
    return growth > MOST


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-x", type=int, default=1, metavar="FACTOR")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(way.__name__ for way in WAYS))
    options = parser.parse_args()
    chosen = [way for way in WAYS if not options.names or way.__name__ in options.names]
    grown = [way.__name__ for way in chosen if grows(way, WAYS[way] * options.x)]
    if grown:
        sys.exit(f"costs more for each the more there are: {', '.join(grown)}")


BASE = statistics.median(cost([*UNLIMITED, "--", "true"], b"") for _ in range(5))

if __name__ == "__main__":
    main()
