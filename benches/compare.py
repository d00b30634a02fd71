#!/usr/bin/env python3
"""Compares throttle with the peers that are present: pairs of runs, medians, ratios.

    cargo build --release && benches/compare.py [-n PAIRS] [NAME...]

Installs nothing. A peer that is missing is left out. On a busy machine, trust the ratios rather than the figures:
the two runs of a pair follow each other directly. All commands are printed.
"""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
THROTTLE = os.environ.get("THROTTLE", os.path.join(HERE, "..", "target", "release", "throttle"))
LINE = b"abcdefghijklmnopqrstuvwxyz012345678\n"
UNLIMITED = "-r 1T/s"


def seconds(command):
    """The time that a shell command takes, in seconds."""
    start = time.monotonic()
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def paired(pairs, ours, theirs):
    """The median ratio of their time to ours."""
    seconds(ours)
    return statistics.median(seconds(theirs) / seconds(ours) for _ in range(pairs))


def usage_of(command, stdin=None):
    """The wall and CPU time of one process, in seconds."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime


def peak_of(command, stdin):
    """The peak resident memory of one process in MiB, as last read before it ended."""
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), peak)
        except FileNotFoundError:
            return float("nan")
        time.sleep(0.005)
    assert process.returncode == 0, command
    return peak / 1024


def arrivals(command, stdin):
    """When lines come out of a command: (instant in ns, lines) for each read, and their total."""
    process = subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE)
    stamps, total = [], 0
    while chunk := os.read(process.stdout.fileno(), 1 << 20):
        count = chunk.count(b"\n")
        total += count
        stamps.append((time.monotonic_ns(), count))
    assert process.wait() == 0
    return stamps, total


def latency(command, lines=300):
    """The median time that a line takes through a command, in microseconds."""
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    taken = []

    def read():
        while line := process.stdout.readline():
            taken.append(time.monotonic_ns() - int(line))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(lines):
        time.sleep(0.003)
        os.write(process.stdin.fileno(), b"%d\n" % time.monotonic_ns())
    process.stdin.close()
    reader.join()
    process.wait()
    return statistics.median(taken) / 1000


class Comparison:
    def __init__(self, pairs, directory):
        self.pairs = pairs
        self.directory = directory
        self.lines = os.path.join(directory, "lines")
        self.few = os.path.join(directory, "few")
        self.million = os.path.join(directory, "million")
        with open(self.lines, "wb") as file:
            for _ in range(100):
                file.write(LINE * 100_000)
        with open(self.few, "wb") as file:
            file.write(b"x\n" * 1000)
        with open(self.million, "wb") as file:
            file.write(b"x\n" * 3_000_000)

    def row(self, what, target, value, command):
        print(f"| {what} | {target} | {value} | `{command}` |", flush=True)

    def ratio(self, what, target, ours, peer, theirs):
        if shutil.which(peer) is None:
            return self.row(what, target, f"{peer} is not here", "")
        self.row(what, target, f"{paired(self.pairs, ours, theirs):.2f}", theirs.replace(self.lines, "lines").replace(self.few, "few"))

    def passthrough(self):
        """10 M lines between two pipes, under a limit that does not bind."""
        through = f"cat {self.lines} | %s | cat > /dev/null"
        ours = through % f"{THROTTLE} {UNLIMITED}"
        for peer, command, target in [("pv", "pv -ql -L 1000000000", "2.5"), ("cat", "cat", "2")]:
            self.ratio(f"lines/s over {peer}'s", f">= {target}", ours, peer, through % command)

    def records(self):
        """Keys and costs, two pipes, no limit binding, against what a user would write to read the same fields."""
        for what, option, rows, peer, theirs, target in [
            ("key=col:1", "key=col:1", self.keyed(2_000_000), "awk", "awk '{c[$1]++; print}'", "1"),
            ("cost=bytes", "cost=bytes", self.keyed(2_000_000), "awk", "awk '{c+=length; print}'", "1"),
            ("key=host", "key=host", self.urls(2_000_000), "awk", "awk -F/ '{c[$3]++; print}'", "1"),
            ("JSON cost and key", "cost=.tokens,key=.user.id", self.documents(300_000), "jq", "jq -c .", "5"),
        ]:
            path = os.path.join(self.directory, "records")
            with open(path, "wb") as file:
                file.writelines(rows)
            through = f"cat {path} | %s | cat > /dev/null"
            ours = through % f"{THROTTLE} -r 1T/s,{option}"
            self.ratio(f"items/s with {what}, over {peer}'s", f">= {target}", ours, peer, through % theirs)

    def keyed(self, count):
        """Lines with 100 000 keys, in an order that looks random but is always the same."""
        return (b"key%d item %d\n" % (item * 7919 % 100_003 % 100_000, item) for item in range(count))

    def urls(self, count):
        """URLs on 1000 hosts."""
        return (b"https://host%d.example.org/path/%d\n" % (item * 7919 % 1000, item) for item in range(count))

    def documents(self, count):
        """JSON documents from 1000 users."""
        text = b'{"user":{"id":"u%d","name":"Some Body"},"tokens":%d,"text":"lorem ipsum dolor sit amet, consectetur"}\n'
        return (text % (item * 7919 % 1000, item % 2000 + 1) for item in range(count))

    def dry_run(self):
        """The CPU time of a dry run with 2 M items and 100 000 keys, in seconds."""
        command = [THROTTLE, "--dry-run", "-r", "1/s,key=col:1"]
        with tempfile.TemporaryFile() as stdin:
            stdin.writelines(self.keyed(2_000_000))
            seconds = []
            for _ in range(self.pairs):
                stdin.seek(0)
                seconds.append(usage_of(command, stdin)[1])
        self.row("CPU of a dry run, 2 M items", "<= 1.5 s", f"{statistics.median(seconds):.2f} s", "throttle " + " ".join(command[1:]))

    def keys(self):
        """The memory for 1 000 000 keys of 20 bytes."""
        command = [THROTTLE, "-r", "1/h,key=col:1"]
        with tempfile.TemporaryFile() as stdin:
            stdin.writelines(b"key%017d\n" % item for item in range(1_000_000))
            stdin.seek(0)
            peak = peak_of(command, stdin)
        each = peak * 1024 * 1024 / 1_000_000 - 20
        self.row("memory a key, beside the key", "<= 64 bytes", f"{each:.0f} bytes", "throttle " + " ".join(command[1:]))

    def commands(self):
        """/bin/true, 1000 times."""
        for jobs, xargs, what in [("", "", "serial"), ("-j2", "-P2", "two at once")]:
            ours = f"{THROTTLE} {UNLIMITED} {jobs} -- /bin/true < {self.few}"
            theirs = f"xargs -n1 {xargs} /bin/true < {self.few}"
            self.ratio(f"commands/s over xargs', {what}", ">= 1.3", ours, "xargs", theirs)

    def startup(self):
        """Start and exit on empty input, 50 times."""
        repeat = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5; do %s < /dev/null; done; done"
        inverse = paired(self.pairs, repeat % f"{THROTTLE} -n 1", repeat % "cat")
        self.row("start-up over cat's", "<= 2", f"{1 / inverse:.2f}", repeat % "cat")

    def transit(self):
        """A single line that need not wait, 300 times."""
        ratios = [latency(f"{THROTTLE} {UNLIMITED}") / latency("cat") for _ in range(self.pairs)]
        self.row("transit of a line over cat's, p50", "<= 1.5", f"{statistics.median(ratios):.2f}", f"throttle {UNLIMITED}")

    def rate(self):
        """1 000 000 lines a second, as 1000 per millisecond and as 1 M per second, of 3 M lines."""
        command = [THROTTLE, "-n", "1000", "-p", "1ms"]
        shares = []
        for _ in range(self.pairs):
            with open(self.million, "rb") as stdin:
                stamps, total = arrivals(command, stdin)
            span = (stamps[-1][0] - stamps[0][0]) / 1e9
            shares.append((total - stamps[0][1]) / span / 1e6)
        self.row("1 000 000 lines/s: share of the limit", ">= 99.9 %", f"{100 * statistics.median(shares):.2f} %", "throttle -n 1000 -p 1ms")
        command = [THROTTLE, "-n", "1M", "-p", "1s"]
        with open(self.million, "rb") as stdin:
            stamps, total = arrivals(command, stdin)
        # Each second's lines leave at once, so what counts is when the last of three bursts begins.
        done = 0
        for at, count in stamps:
            if done + count > 2_000_000:
                break
            done += count
        span = (at - stamps[0][0]) / 1e9
        self.row("1 000 000 in any second: share of the limit", ">= 99.9 %", f"{100 * 2 / span:.2f} %", "throttle -n 1M -p 1s")

    def interval(self):
        """Minimum gaps of 1 ms and 0.1 ms for two seconds, less the time of a single line, which has no gap."""
        for hertz in (1000, 10_000):
            command = [THROTTLE, "-A", "interval", "-r", f"{hertz}/s"]
            shares, loads = [], []
            for _ in range(self.pairs):
                (start, _), (wall, cpu) = (self.usage_with(count, command) for count in (1, 2 * hertz))
                shares.append((2 * hertz - 1) / (wall - start) / hertz)
                loads.append(cpu / wall)
            text = f"{100 * statistics.median(shares):.2f} %, {100 * statistics.median(loads):.0f} % CPU"
            bound = ">= 99.5 %" + (", CPU <= 15 %" if hertz == 1000 else "")
            self.row(f"gaps at {hertz} Hz: share of the limit, CPU", bound, text, " ".join(["throttle"] + command[1:]))

    def reached_together(self, rate, command, users=8, start=1.0, end=11.0):
        """The share of a limit that several processes with endless input reach together in ten seconds."""
        reader, writer = os.pipe()
        running = []
        for _ in range(users):
            with open(self.million, "rb") as stdin:
                running.append(subprocess.Popen(command, stdin=stdin, stdout=writer))
        os.close(writer)
        origin, released = time.monotonic(), 0
        while (now := time.monotonic() - origin) < end:
            count = os.read(reader, 1 << 16).count(b"\n")
            released += count if now >= start else 0
        for process in running:
            process.kill()
            process.wait()
        os.close(reader)
        return released / rate / (end - start)

    def shared(self):
        """Eight processes share a limit, in a file and on a server."""
        what = "share of a limit that 8 processes reach together"
        shares = []
        for _ in range(self.pairs):
            with tempfile.TemporaryDirectory() as directory:
                state = os.path.join(directory, "state")
                shares.append(self.reached_together(1000, [THROTTLE, "-n", "100", "-p", "100ms", "-s", state]))
        self.row(what, ">= 95 %", f"{100 * statistics.median(shares):.1f} %", "throttle -n 100 -p 100ms -s ./state")
        if shutil.which("redis-server") is None:
            return self.row(what, ">= 90 %", "redis-server is not here", "")
        with tempfile.TemporaryDirectory() as directory:
            socket = os.path.join(directory, "socket")
            options = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory]
            server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
            while not os.path.exists(socket):
                time.sleep(0.01)
            command = [THROTTLE, "-n", "1000", "-p", "1s", "-s", f"unix://{socket}?name=shared"]
            shares = [self.reached_together(1000, command) for _ in range(self.pairs)]
            server.kill()
            server.wait()
        self.row(what, ">= 90 %", f"{100 * statistics.median(shares):.1f} %", "throttle -n 1000 -p 1s -s unix://SOCKET?name=NAME")

    def usage_with(self, count, command):
        """The wall and CPU time of `count` lines, in seconds."""
        with tempfile.TemporaryFile() as stdin:
            stdin.write(b"x\n" * count)
            stdin.seek(0)
            return usage_of(command, stdin)

    def windows(self):
        """The most lines in any second under a limit of 10: 15 lines at once, 25 more after two idle seconds."""
        feed = "(sleep 0.5; seq 15; sleep 2; seq 25) |"
        for peer, command in [
            (THROTTLE, f"{THROTTLE} -n 10 -p 1s"),
            ("pv", "pv -ql -L 10"),
            ("parallel", "parallel -j1 --delay 0.1 echo"),
            ("xargs", "xargs -n1 sh -c 'echo $0; sleep 0.1'"),
            ("sh", "sh -c 'while read -r line; do echo $line; sleep 0.1; done'"),
        ]:
            if shutil.which(peer) is None:
                self.row("most lines in any second", "<= 10", f"{peer} is not here", command)
                continue
            process = subprocess.Popen(f"{feed} {command}", shell=True, stdout=subprocess.PIPE)
            stamps = []
            while chunk := os.read(process.stdout.fileno(), 1 << 16):
                stamps += [time.monotonic_ns()] * chunk.count(b"\n")
            process.wait()
            # A receiver sees lines a little closer together, or further apart, than they were sent.
            second = 1_000_000_000 - 5_000_000
            worst = max(sum(at <= other < at + second for other in stamps) for at in stamps)
            self.row("most lines in any second", "<= 10", worst, command.replace(THROTTLE, "throttle"))

    def memory(self):
        """Peak resident memory."""
        with open(self.lines, "rb") as stdin:
            peak = peak_of([THROTTLE, "-r", "1T/s"], stdin)
        self.row("memory, pass-through", "<= 8 MiB", f"{peak:.1f} MiB", "throttle -r 1T/s")
        # 100 000 lines a second for ten seconds, each with its own entry in the window of an hour.
        command = [THROTTLE, "-A", "interval", "-r", "200k/s", "-r", "2M/h,algo=sliding"]
        with tempfile.TemporaryFile() as stdin:
            stdin.write(b"x\n" * 1_000_000)
            stdin.seek(0)
            peak = peak_of(command, stdin)
        what = "memory, 1 000 000 releases in the window"
        self.row(what, "<= 24 MiB", f"{peak:.1f} MiB", "throttle " + " ".join(command[1:]))


NAMES = ["passthrough", "records", "dry_run", "keys", "windows", "rate", "interval", "transit", "startup", "commands", "memory", "shared"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", dest="pairs", type=int, default=7, help="pairs of runs for each figure")
    parser.add_argument("names", nargs="*", help="what to compare; all of it by default")
    args = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, medians of {args.pairs} pairs\n")
    print("| what | target | figure | against |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as directory:
        comparison = Comparison(args.pairs, directory)
        for name in args.names or NAMES:
            getattr(comparison, name)()


main()
