#!/usr/bin/env python3
"""Runs a command whose stderr is a terminal, and prints what that terminal was shown.

    terminal.py COMMAND ARGUMENT...

The command is stopped for a good second once it has worked for a twelfth of one, so that half a second of work is, by the
clock, work over a second, on slow, fast and busy machines. Printed are stdout's lines, then each different frame of the progress bar (what lies between two
"erase this line"), the digits of its numbers as N and its bar as [#..], then what is left on the terminal's line when
the command has ended, and the exit code when it is not 0."""
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

ERASE = b"\r\033[K"


def read_all(descriptor, chunks):
    while True:
        try:
            chunk = os.read(descriptor, 4096)
        except OSError:  # the other end is closed
            return
        if not chunk:
            return
        chunks.append(chunk)


def plain(frame):
    return re.sub(r" *\d+", " N", re.sub(r"\[[#.]{30}\]", "[#..]", frame.decode()))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    ours, theirs = pty.openpty()
    chunks = []
    process = subprocess.Popen(sys.argv[1:], stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    reader = threading.Thread(target=read_all, args=(ours, chunks))
    reader.start()
    while process.poll() is None and processor_seconds(process.pid) < 0.08:
        time.sleep(0.005)
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.3)
    process.send_signal(signal.SIGCONT)
    output = process.communicate()[0]
    reader.join()
    sys.stdout.write(output.decode())
    frames = b"".join(chunks).split(ERASE)
    shown = []
    for frame in map(plain, frames[:-1]):
        if frame and frame not in shown:
            shown.append(frame)
    for frame in shown:
        print("shown:", frame)
    print("left:", frames[-1].decode().replace("\r\n", "\\n") or "nothing")
    if process.returncode != 0:
        print(f"exit code {process.returncode}")


main()
