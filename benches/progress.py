#!/usr/bin/env python3
"""Draws the terminal of the README: a run with its progress line, as it was seen on a pseudo-terminal.

    benches/progress.py target/release/throttle >benches/progress.svg

The picture moves by CSS alone, and stands still for those who prefer reduced motion.
"""

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

SHOWN = "throttle -n 3 -p 4s -j 3 --progress -- ./check <urls"
COLUMNS, ROWS, LINE, CHARACTER = 72, 14, 19, 7.8
# The seconds for which the end is shown before the picture starts over, and the second shown where nothing moves.
HOLD, STILL = 4.0, 9.5
# Changes less than this many seconds apart are one moment.
TOGETHER = 0.04

CHECK = """#!/bin/sh
sleep 0.2$(printf %s "$1" | tail -c 1)
[ "$1" != https://example.org/6 ] || exit 22
echo "ok $1"
"""

STYLE = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#24292f;white-space:pre}
.ground{fill:#f6f8fa;stroke:#d8dee4}.prompt{fill:#57606a}.progress{fill:#0969da}.message{fill:#cf222e}.off{visibility:hidden}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#161b22;stroke:#30363d}
.prompt{fill:#9198a1}.progress{fill:#4493f8}.message{fill:#ff7b72}}
"""


def record(throttle):
    """Runs the command; returns the screen after each read, as (seconds, lines), and the exit status."""
    with tempfile.TemporaryDirectory() as directory:
        for name, text in [("check", CHECK), ("urls", "".join(f"https://example.org/{n}\n" for n in range(1, 11)))]:
            with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                file.write(text)
        os.chmod(os.path.join(directory, "check"), 0o755)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = SHOWN.replace("throttle", throttle, 1)
        environment = {**os.environ, "TERM": "xterm"}
        process = subprocess.Popen(
            ["sh", "-c", command], cwd=directory, env=environment, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        return list(moments(master)), process.wait()


def moments(master):
    """Yields the screen after each read. The end is a read that fails, once the last process is gone."""
    start, text = time.monotonic(), ""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:
            return
        text += chunk.decode()
        yield time.monotonic() - start, screen(text)


def screen(text):
    """The lines that a terminal shows for this text."""
    text = re.sub(r"\x1b\[\?7[lh]", "", text).replace("\r\n", "\n")
    lines = [line.rsplit("\r\x1b[2K", 1)[-1] for line in text.split("\n")]
    assert "\x1b" not in "".join(lines), "an escape sequence that is not known"
    return lines


def appearances(shots, end):
    """Each line with its row and when it was visible: (row, text, from, to)."""
    merged = []
    for at, lines in shots:
        if merged and at - merged[-1][0] < TOGETHER:
            merged[-1] = (merged[-1][0], lines)
        else:
            merged.append((at, lines))
    there = {}
    for at, lines in merged + [(end, [])]:
        now = {(row, line) for row, line in enumerate(lines) if line}
        for row, line in sorted(there.keys() - now):
            yield row, line, there.pop((row, line)), at
        there.update({key: at for key in now - there.keys()})


def kind(line):
    if line.startswith("$"):
        return "prompt"
    if line.startswith("throttle: "):
        return "message"
    return "" if line.startswith("ok ") else "progress"


def draw(shots):
    end = shots[-1][0] + HOLD
    shown = sorted(appearances(shots, end))
    rows = max(row for row, *_ in shown) + 3
    width, height = COLUMNS * CHARACTER + 24, rows * LINE + 12
    percent = lambda at: f"{100 * at / end:.2f}%"
    body, frames = [], []
    for number, (row, line, start, stop) in enumerate([(-1, f"$ {SHOWN}", 0, end)] + shown):
        classes = [kind(line)] if kind(line) else []
        style = ""
        if stop < end or start > 0:
            style = f' style="animation-name:a{number}"'
            classes.append("timed" if start <= STILL < stop else "timed off")
            before = f"0%{{visibility:hidden}}" if start > 0 else ""
            after = f"{percent(stop)},100%{{visibility:hidden}}" if stop < end else "100%{visibility:visible}"
            frames.append(f"@keyframes a{number}{{{before}{percent(start)}{{visibility:visible}}{after}}}")
        name = f' class="{" ".join(classes)}"' if classes else ""
        body.append(f'<text x="12" y="{(row + 2) * LINE}"{name}{style}>{html.escape(line, quote=False)}</text>')
    moving = f".timed{{animation:{end:.1f}s step-end infinite}}" + "".join(frames)
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" role="img">'
        f"<title>A run of ten commands, three in any four seconds, with its progress line</title>\n"
        f"<style>{STYLE.strip()}\n@media(prefers-reduced-motion:no-preference){{{moving}}}</style>\n"
        f'<rect class="ground" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="6"/>'
    )
    print("\n".join(body) + "\n</svg>")


def main():
    throttle = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/throttle")
    shots, status = record(throttle)
    assert status == 123, f"one command fails, so the status is 123, not {status}"
    draw(shots)


if __name__ == "__main__":
    main()
