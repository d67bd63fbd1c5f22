#!/usr/bin/env python3
"""Writes tensor files that lie, into the current directory. The standard library alone."""
import json
import struct
import warnings
import zipfile

warnings.simplefilter("ignore")


def npy(shape, data_bytes, descr="<f4"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + bytes(data_bytes)


def archive(name, members, packing=zipfile.ZIP_STORED):
    with zipfile.ZipFile(name, "w", packing) as file:
        for member, content in members:
            file.writestr(member, content)


def tensors(name, header, data_bytes, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text) if length is None else length) + text + bytes(data_bytes))


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def patch(source, target, change):
    with open(source, "rb") as file:
        content = bytearray(file.read())
    with open(target, "wb") as file:
        file.write(change(content))


def flip(content):
    content[70] ^= 0xFF
    return content


archive("ok.npz", [("a.npy", npy("(4,)", 16))], zipfile.ZIP_DEFLATED)
archive("slip.npz", [("../evil.npy", npy("(1,)", 4))])
archive("two.npz", [("a.npy", npy("(1,)", 4)), ("a.npy", npy("(1,)", 4))])
archive("other.npz", [("a.exe", b"x")])
archive("lie.npz", [("a.npy", npy("(5,)", 16))])
archive("bomb.npz", [("a.npy", npy("(25000000,)", 100000000))], zipfile.ZIP_DEFLATED)
archive("many.npz", [(f"a{i}.npy", npy("(100000,)", 400000)) for i in range(4)], zipfile.ZIP_DEFLATED)
patch("bomb.npz", "cut.npz", lambda content: content[:len(content) // 2])
patch("ok.npz", "flipped.npz", flip)

tensors("ok.safetensors", {"a": entry([2], 0, 8)}, 8)
tensors("cut.safetensors", {"a": entry([2], 0, 8)}, 7)
tensors("long.safetensors", {"a": entry([2], 0, 8)}, 8, 1 << 40)
tensors("lie.safetensors", {"a": entry([3], 0, 8)}, 8)
tensors("overlap.safetensors", {"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, 12)
tensors("hole.safetensors", {"a": entry([2], 4, 12)}, 12)
tensors("tail.safetensors", {"a": entry([2], 0, 8)}, 9)
tensors("wide.safetensors", {"a": entry([1 << 32, 1 << 32], 0, 8)}, 8)
tensors("back.safetensors", {"a": entry([2], 8, 0)}, 8)
tensors("slip.safetensors", {"../a": entry([2], 0, 8)}, 8)
tensors("f8.safetensors", {"a": entry([2], 0, 2, "F8_E4M3")}, 2)
tensors("json.safetensors", b'{"a":', 8)
tensors("deep.safetensors", b"[" * 100000, 8)
one = json.dumps(entry([2], 0, 8)).encode()
tensors("twice.safetensors", b'{"a":' + one + b',"a":' + one + b"}", 8)
with open("short.safetensors", "wb") as out:
    out.write(b"abc")
