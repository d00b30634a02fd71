#!/usr/bin/env python3
"""Many runs that share a limit on a server far away: how much of it they reach together, and how fairly.

    cargo build --release && benches/contended.py [-n RUNS] [-t SECONDS] [-d MS,MS...] [RATE...]

Each case has a server of its own, behind a proxy on loopback that delays each direction by half of the round trip MS.
All runs get their first items at the same time and always have some. Prints the releases, the fewest and most of a run,
Jain's index of fairness (1: all have the same), the most releases in any window of the limit as stamped here, and the
processor time of all runs. With cost=bytes, lines have random lengths, and their bytes are counted. THROTTLE names the
program.
"""
import argparse
import asyncio
import bisect
import multiprocessing
import os
import random
import re
import resource
import selectors
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
THROTTLE = os.environ.get("THROTTLE", os.path.join(HERE, "..", "target", "release", "throttle"))
UNITS = {"s": 1, "m": 60, "h": 3600}


class Way(asyncio.Protocol):
    """One direction of a connection: what arrives is sent on after a delay."""

    def __init__(self, delay, connect=None):
        self.delay, self.connect, self.other, self.early = delay, connect, None, []

    def connection_made(self, transport):
        self.transport = transport
        if self.connect:
            asyncio.get_running_loop().create_task(self.lead_on())

    async def lead_on(self):
        _, self.other = await self.connect()
        self.other.other = self
        for data in self.early:
            self.data_received(data)

    def data_received(self, data):
        if self.other is None:
            return self.early.append(data)
        return asyncio.get_running_loop().call_later(self.delay, self.other.transport.write, data)

    def connection_lost(self, _):
        if self.other is not None:
            self.other.transport.close()


def proxy(path, delay, told):
    async def serve():
        loop = asyncio.get_running_loop()
        on = lambda: loop.create_unix_connection(lambda: Way(delay), path)
        server = await loop.create_server(lambda: Way(delay, on), "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()
    asyncio.run(serve())


def measure(rate, trip, count, seconds, directory):
    socket, items = os.path.join(directory, "socket"), os.path.join(directory, "items")
    if not os.path.exists(items):
        with open(items, "wb") as file:
            if "cost=bytes" in rate:
                file.writelines(b"y" * random.randrange(1000) + b"\n" for _ in range(100_000))
            else:
                file.write(b"y\n" * 4_000_000)
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
                              stdout=subprocess.DEVNULL)
    while not os.path.exists(socket):
        time.sleep(0.01)
    told, tells = multiprocessing.Pipe()
    between = multiprocessing.Process(target=proxy, args=(socket, trip / 2000, tells), daemon=True)
    between.start()
    url = f"redis://127.0.0.1:{told.recv()}/bench"
    runs, look = [], selectors.DefaultSelector()
    totals, stamps = [0] * count, []

    def read(seconds):
        for key, _ in look.select(seconds):
            lines = os.read(key.fd, 1 << 16)
            cost = len(lines) if "cost=bytes" in rate else lines.count(b"\n")
            totals[key.data] += cost
            stamps.append((time.monotonic(), cost))
            if not lines:
                look.unregister(key.fileobj)

    gate = os.path.join(directory, "gate")
    os.mkfifo(gate)
    closed = os.open(gate, os.O_RDWR)
    for number in range(count):
        feed = ["sh", "-c", 'read _ < "$1"; exec cat "$0"', items, gate]
        with subprocess.Popen(feed, stdout=subprocess.PIPE).stdout as stdin:
            run = subprocess.Popen([THROTTLE, "-s", url, "-r", rate], stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        os.set_blocking(run.stdout.fileno(), False)
        look.register(run.stdout, selectors.EVENT_READ, number)
        runs.append(run)
    time.sleep(1)
    os.close(closed)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        read(left)
    words = set()
    for run in runs:
        run.terminate()
    for run in runs:
        words |= set(run.communicate()[1].decode().splitlines())
    memory = subprocess.run(["redis-cli", "-s", socket, "MEMORY", "USAGE", "throttle:bench"], capture_output=True,
                            text=True, check=True).stdout.strip()
    stats = subprocess.run(["redis-cli", "-s", socket, "INFO"], capture_output=True, text=True, check=True).stdout
    sent = sum(int(re.search(f"total_net_{way}put_bytes:(\\d+)", stats)[1]) for way in ("in", "out"))
    calls = re.search("total_commands_processed:(\\d+)", stats)[1]
    between.terminate()
    server.terminate()
    server.wait()
    period = re.search(r"/(\d*)([smh])", rate)
    return totals, most_in(stamps, int(period[1] or 1) * UNITS[period[2]]), words, (memory, sent, calls)


def most_in(stamps, period):
    """The most in any window: each begins with something."""
    stamps.sort()
    instants, sums = [at for at, _ in stamps], [0]
    for _, lines in stamps:
        sums.append(sums[-1] + lines)
    return max((sums[bisect.bisect_left(instants, at + period)] - sums[first] for first, at in enumerate(instants)),
               default=0)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("-n", type=int, default=40, metavar="RUNS")
    options.add_argument("-t", type=float, default=15, metavar="SECONDS")
    options.add_argument("-d", default="1,20,100", metavar="MS,...")
    options.add_argument("-v", action="store_true", help="also tell what the runs tell")
    options.add_argument("rates", nargs="*", default=["5000/h", "1000/s", "1M/h"], metavar="RATE")
    args = options.parse_args()
    for rate in args.rates:
        for trip in map(float, args.d.split(",")):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            with tempfile.TemporaryDirectory() as directory:
                totals, most, words, (memory, sent, calls) = measure(rate, trip, args.n, args.t, directory)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            jain = sum(totals) ** 2 / (len(totals) * sum(total ** 2 for total in totals) or 1)
            print(f"{rate} at {trip:g} ms: {sum(totals)} ({min(totals)} to {max(totals)}), Jain {jain:.3f}, "
                  f"at most {most} in a window, {used:.1f} s of CPU; {memory} bytes, {sent} sent in {calls} commands",
                  flush=True)
            if args.v:
                print(*sorted(words), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
