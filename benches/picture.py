#!/usr/bin/env python3
"""Draws the picture of the README: what throttle and its peers let through at 10 per second.

    benches/picture.py target/release/throttle >benches/picture.svg

Each gets the same items: 40 at once, and 40 more 8 seconds later. The same receiver, this process, notes when
each line reaches it. The picture shows the number of lines in the last second, over time. Needs pv and GNU parallel.
"""

import os
import subprocess
import sys
import threading
import time

COUNT, PERIOD, PAUSE, ITEMS = 10, 1.0, 8.0, 40
LENGTH = 14.0

STYLE = """
text{font:13px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;fill:#24292f}
.title{font-weight:600}.small{fill:#57606a}.ground{fill:#fff}.grid{stroke:#d8dee4}.axis{stroke:#57606a}
.limit{stroke:#57606a;stroke-width:1.5;stroke-dasharray:6 4}
.line{fill:none;stroke:#0969da;stroke-width:2;stroke-linejoin:round}.over{fill:#cf222e}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}.ground{fill:#0d1117}.grid{stroke:#2a313c}.axis,.limit{stroke:#9198a1}
.line{stroke:#4493f8}.over{fill:#ff7b72}}
"""


def run(command):
    """When each line came, in seconds after the first."""
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def feed():
        line = b"x\n"
        process.stdin.write(line * ITEMS)
        time.sleep(PAUSE)
        process.stdin.write(line * ITEMS)
        process.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    instants = []
    while chunk := os.read(process.stdout.fileno(), 65536):
        instants += [time.monotonic()] * chunk.count(b"\n")
    process.wait()
    return [instant - instants[0] for instant in instants]


def windows(instants):
    """The number of lines in the last period, after each line enters or leaves that window: (time, count)."""
    changes = sorted([(at, 1) for at in instants] + [(at + PERIOD, -1) for at in instants])
    points, count = [], 0
    for at, change in changes:
        points.append((at, count))
        count += change
        points.append((at, count))
    return points


def panel(name, command, instants, top, left, y):
    width, height = 400.0, 120.0
    across = lambda at: left + min(at / LENGTH, 1.0) * width
    up = lambda count: y + height - count / top * height
    points = [(at, count) for at, count in windows(instants) if at <= LENGTH]
    most = max(count for _, count in points)
    verdict = f"up to {most} in a second" if most > COUNT else f"never more than {most}"
    yield f'<text class="title" x="{left}" y="{y - 30}">{name}</text>'
    yield f'<text class="small" x="{left}" y="{y - 12}">{command}</text>'
    kind = "over" if most > COUNT else "small"
    yield f'<text class="{kind}" x="{left + width}" y="{y - 30}" text-anchor="end">{verdict}</text>'
    for count in range(0, int(top) + 1, COUNT):
        kind = {0: "axis", COUNT: "limit"}.get(count, "grid")
        yield f'<path class="{kind}" d="M{left} {up(count):.1f}h{width}"/>'
        yield f'<text class="small" x="{left - 8}" y="{up(count) + 4.5:.1f}" text-anchor="end">{count}</text>'
    for at in range(0, int(LENGTH) + 1, 2):
        yield f'<path class="axis" d="M{across(at):.1f} {y + height}v4"/>'
        yield f'<text class="small" x="{across(at):.1f}" y="{y + height + 19}" text-anchor="middle">{at} s</text>'
    line = " ".join(f"{across(at):.1f} {up(count):.1f}" for at, count in points)
    yield f'<path class="line" d="M{line}"/>'
    for (_, before), (at, count) in zip(points, points[1:]):
        if count > max(before, COUNT):
            yield f'<circle class="over" cx="{across(at):.1f}" cy="{up(count):.1f}" r="2.5"/>'


def main():
    throttle = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/throttle")
    runs = [
        ("throttle", "throttle -r 10/s,margin=10ms", f"{throttle} -r 10/s,margin=10ms"),
        ("pv", "pv -q -l -L 10", "pv -q -l -L 10"),
        ("GNU parallel", "parallel -u -j 20 --delay 0.1 echo", "parallel -u -j 20 --delay 0.1 echo"),
        ("a loop", "while read x; do echo $x; sleep 0.1; done", "while read x; do echo $x; sleep 0.1; done"),
    ]
    results = [(name, shown, run(command)) for name, shown, command in runs]
    most = max(count for *_, instants in results for _, count in windows(instants))
    top = max(20.0, most * 1.1)
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 448" width="960" height="448" role="img">')
    print("<title>Lines within the last second, at 10 per second, with a pause in the input</title>")
    print(f'<style>{STYLE.strip()}</style><rect class="ground" width="960" height="448"/>')
    print('<text class="title" x="52" y="28">Lines that came within the last second, where at most 10 should</text>')
    for number, (name, shown, instants) in enumerate(results):
        left, y = 52 + 470 * (number % 2), 92 + 200 * (number // 2)
        print("\n".join(panel(name, shown, instants, top, left, y)))
    print("</svg>")


if __name__ == "__main__":
    main()
