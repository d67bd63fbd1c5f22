"""What all goldens share: numbers that the types hold exactly, rounding to the types, and the file.

A golden is one recorded call as `aclgrad replay` reads it: an .npz whose member call.json holds the scalar arguments,
with the inputs in their own types and the gradients in double. Equal values make equal bytes.
"""
import io
import json
import os
import zipfile
import zlib

import numpy

NUMPY_TYPES = {"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64, "i32": numpy.int32, "i64": numpy.int64,
               "u8": numpy.uint8, "bool": numpy.bool_}


def random_of(name):
    """Numbers that depend on the golden's name alone: a new golden changes no other. This generator is frozen."""
    return numpy.random.RandomState(zlib.crc32(name.encode()))


def normal(random, shape, deviation=1):
    """Normal numbers, rounded to a grid: at most 8 significant bits, so exact in bf16, f16 and f32, and their products
    and short sums exact in double."""
    return numpy.clip(numpy.rint(random.standard_normal(shape) * 32), -255, 255) * (deviation / 32)


def encode(values, dtype):
    """The array as the file holds it; bf16 as the upper half of a float, rounded to nearest even."""
    if dtype != "bf16":
        return numpy.ascontiguousarray(values).astype(NUMPY_TYPES[dtype])
    bits = numpy.ascontiguousarray(values).astype(numpy.float32).view(numpy.uint32).astype(numpy.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return numpy.where(numpy.isnan(values), 0x7FC0, rounded).astype(numpy.uint16)


def decode(array, dtype):
    """The values of an encoded array, in double."""
    if dtype == "bf16":
        array = (array.astype(numpy.uint32) << 16).view(numpy.float32)
    return array.astype(numpy.float64)


def rounded(values, dtype):
    return decode(encode(values, dtype), dtype)


class Golden:
    """Collects the tensors and arguments of one call."""

    def __init__(self, operator, name, about):
        self.operator, self.name, self.about = operator, f"{operator}/{name}", about
        self.arguments, self.views, self.arrays = {}, {}, {}

    def add_input(self, name, values, dtype):
        array = encode(values, dtype)
        same = numpy.array_equal(decode(array, dtype), values, equal_nan=True)
        assert same, f"{self.name}: {name} is not exact in {dtype}"
        self.arrays[name] = array

    def add_gradient(self, name, values):
        assert numpy.isfinite(values).all(), f"{self.name}: {name}"
        self.arrays[name] = encode(values, "f64")

    def add_result(self, name, values):
        """An output that may be infinite."""
        assert not numpy.isnan(values).any(), f"{self.name}: {name}"
        self.arrays[name] = encode(values, "f64")

    def add_view(self, name, storage, dtype, shape, strides):
        """An input that lies in few bytes."""
        self.arrays[name] = encode(storage, dtype)
        self.views[name] = {"shape": shape, "strides": strides, "offset": 0}

    def write(self, folder):
        call = {"operator": self.operator, "arguments": self.arguments}
        if self.views:
            call["views"] = self.views
        path = os.path.join(folder, self.name + ".npz")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            add_member(archive, "call.json", json.dumps(call).encode())
            for name, array in self.arrays.items():
                content = io.BytesIO()
                numpy.lib.format.write_array(content, array, version=(1, 0))
                add_member(archive, name + ".npy", content.getvalue())


def add_member(archive, name, content):
    member = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    member.external_attr = 0o644 << 16
    archive.writestr(member, content, zipfile.ZIP_DEFLATED, 9)
