#!/usr/bin/env python3
"""Makes and damages .npy files, with the standard library alone.

    tensor.py make OUT DTYPE SHAPE VALUE...   VALUE: 1.5, nan, inf, 0x7e01 (bits), 2*100 (a hundred times); the last
                                              one fills the rest
    tensor.py copy IN OUT EDIT...             edits, in order:
        set=AT:VALUE          element AT of the row-major order (AT may be a range 10-19)
        scale=AXIS:I:FACTOR   slice I along the axis
        swap=AXIS:I:J         two slices exchanged
        times=AT:N:FACTOR     N elements from AT on
        exchange=AT:AT:N      N elements each
        shift=AXIS:N          slice i becomes slice i - N, the first N zero
        fortran               column-major in the file
        header=OLD:NEW        text of the header; its padding makes up for the length
        cut=N                 the last N bytes are gone
        append=N              N bytes more
    tensor.py bytes OUT HEX...                any file
"""
import struct
import sys

DTYPES = {"f16": ("<f2", 2, "e"), "f32": ("<f4", 4, "f"), "f64": ("<f8", 8, "d"), "i32": ("<i4", 4, "i"),
          "i64": ("<i8", 8, "q"), "u8": ("|u1", 1, "B"), "bool": ("|b1", 1, "B"), "bf16": ("|V2", 2, "H"),
          "u16": ("<u2", 2, "H")}


def encode(dtype, text):
    size, code = DTYPES[dtype][1:]
    if text.startswith("0x"):
        return int(text, 16).to_bytes(size, "little")
    if dtype in ("bf16", "u16"):
        bits = struct.unpack("<I", struct.pack("<f", float(text)))[0]
        if bits & 0x7fffffff <= 0x7f800000:
            bits += 0x7fff + (bits >> 16 & 1)
        return struct.pack("<H", bits >> 16)
    if code in "edf":
        value = float(text)
        try:
            return struct.pack("<" + code, value)
        except OverflowError:
            return struct.pack("<" + code, float("inf") if value > 0 else float("-inf"))
    return struct.pack("<" + code, int(text))


def header_of(descr, shape, order="False"):
    dims = ", ".join(str(dim) for dim in shape) + ("," if len(shape) == 1 else "")
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({dims}), }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def make(out, dtype, shape, values):
    dims = [int(dim) for dim in shape.split(",") if dim]
    count = 1
    for dim in dims:
        count *= dim
    data = bytearray()
    for value in values:
        value, _, times = value.partition("*")
        data += encode(dtype, value) * int(times or 1)
    size = DTYPES[dtype][1]
    data += data[-size:] * (count - len(data) // size)
    with open(out, "wb") as file:
        file.write(header_of(DTYPES[dtype][0], dims) + bytes(data[:count * size]))


class Array:
    def __init__(self, path):
        with open(path, "rb") as file:
            content = file.read()
        length = struct.unpack("<H", content[8:10])[0]
        fields = eval(content[10:10 + length].decode(), {})  # a file of our own making
        self.dtype = next(name for name, d in DTYPES.items() if d[0] == fields["descr"])
        self.shape = fields["shape"]
        self.size = DTYPES[self.dtype][1]
        self.data = bytearray(content[10 + length:])
        self.order, self.cut, self.append, self.edits = "False", 0, 0, []

    def slices(self, axis):
        """(number of slices, bytes of one run of a slice)"""
        inner = self.size
        for dim in self.shape[axis + 1:]:
            inner *= dim
        return self.shape[axis], inner

    def runs(self, axis, i):
        count, inner = self.slices(axis)
        return [slice(at, at + inner) for at in range(i * inner, len(self.data), count * inner)]

    def value(self, at):
        raw = bytes(self.data[at * self.size:(at + 1) * self.size])
        if self.dtype in ("bf16", "u16"):
            return struct.unpack("<f", b"\0\0" + raw)[0]
        return struct.unpack("<" + DTYPES[self.dtype][2], raw)[0]

    def put(self, at, text):
        self.data[at * self.size:(at + 1) * self.size] = encode(self.dtype, text)

    def scale(self, axis, i, factor):
        for run in self.runs(axis, i):
            for at in range(run.start // self.size, run.stop // self.size):
                self.put(at, repr(self.value(at) * factor))

    def shift(self, axis, by):
        count, _ = self.slices(axis)
        old = bytes(self.data)
        for i in range(count):
            for k, run in enumerate(self.runs(axis, i)):
                self.data[run] = old[self.runs(axis, i - by)[k]] if i >= by else bytes(run.stop - run.start)

    def to_fortran(self):
        old, strides, total = bytes(self.data), [], 1
        for dim in self.shape:
            strides.append(total)
            total *= dim
        for at in range(total):
            rest, target = at, 0
            for axis in reversed(range(len(self.shape))):
                target += rest % self.shape[axis] * strides[axis]
                rest //= self.shape[axis]
            self.data[target * self.size:(target + 1) * self.size] = old[at * self.size:(at + 1) * self.size]
        self.order = "True"

    def write(self, path):
        header = header_of(DTYPES[self.dtype][0], self.shape, self.order)
        for old, new in self.edits:
            assert old.encode() in header, (old, header)
            size = len(header)
            header = header.replace(old.encode(), new.encode()).rstrip()
            header += b" " * (size - 1 - len(header)) + b"\n"
        content = header + bytes(self.data) + b"x" * self.append
        with open(path, "wb") as file:
            file.write(content[:len(content) - self.cut])


def edit(array, text):
    name, _, rest = text.partition("=")
    words = rest.split(":")
    if name == "set":
        first, _, last = words[0].partition("-")
        for at in range(int(first), int(last or first) + 1):
            array.put(at, words[1])
    elif name == "scale":
        array.scale(int(words[0]), int(words[1]), float(words[2]))
    elif name == "swap":
        axis, i, j = map(int, words)
        for a, b in zip(array.runs(axis, i), array.runs(axis, j)):
            array.data[a], array.data[b] = array.data[b], array.data[a]
    elif name == "times":
        for at in range(int(words[0]), int(words[0]) + int(words[1])):
            array.put(at, repr(array.value(at) * float(words[2])))
    elif name == "exchange":
        a, b, size = (int(word) * array.size for word in words)
        array.data[a:a + size], array.data[b:b + size] = array.data[b:b + size], array.data[a:a + size]
    elif name == "shift":
        array.shift(int(words[0]), int(words[1]))
    elif name == "fortran":
        array.to_fortran()
    elif name == "header":
        array.edits.append((words[0], ":".join(words[1:])))
    elif name in ("cut", "append"):
        setattr(array, name, int(words[0]))
    else:
        sys.exit(f"unknown edit {text}")


def main():
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "make":
        make(arguments[0], arguments[1], arguments[2], arguments[3:])
    elif command == "copy":
        array = Array(arguments[0])
        for text in arguments[2:]:
            edit(array, text)
        array.write(arguments[1])
    elif command == "bytes":
        with open(arguments[0], "wb") as file:
            file.write(bytes.fromhex("".join(arguments[1:])))
    else:
        sys.exit(__doc__)


main()
