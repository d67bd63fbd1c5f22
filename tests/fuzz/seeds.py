#!/usr/bin/env python3
"""Writes the seeds of the text and file targets into corpus/: good inputs, and one lie each. The standard library alone.

    tests/fuzz/seeds.py

Other files in corpus/ were found by the engines."""
import io
import json
import os
import random
import struct
import zipfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def seed(target, name, content):
    os.makedirs(os.path.join(CORPUS, target), exist_ok=True)
    with open(os.path.join(CORPUS, target, name), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else bytes(content))


# --- problem strings

PROBLEMS = {
    "attention_plain": "attention:q=[100,28],n1=4,n2=2,d=64,mode=3,dtype=f16",
    "attention_all": "attention:q=[3,0,5],kv=[4,1,5],t1=9,t2=11,n1=2,n2=1,d=8,dr=4,dv=6,dtype=f32,mode=8,mask=bnss,bytes=holes,"
                     "pre=-1,next=9223372036854775807,scale=-0.3,headnum=2,layout=bsh,keepprob=0.5,psetype=0,order=ntd,kind=poison",
    "attention_prefix": "attention:qends=[3,-4,0],kvends=[2x3],mode=6,prefix=[1,0,2]",
    "attention_repeat": "attention:q=[512x3,1],scale=0x1.8p-3",
    "indexer_packed": "indexer:layout=tnd,q=[3,4],kv=[9,9],n=2,d=16,k=4,mode=0,kind=skewed",
    "indexer_plain": "indexer:",
    "moe_window": "moe:t=5,k=2,h=16,e=4,range=[2,-1],rows=7,outrows=9,dtype=bf16,probs=f32,permuted=no,topknum=2,padded=yes",
    "entry_name": "aclnnMoeTokenUnpermuteWithEpGrad:t=1",
    "wrong_operator": "atention:q=1",
    "wrong_key": "moe:tt=5",
    "twice": "moe:t=5,t=6",
    "comma": "moe:t=5,",
    "no_value": "moe:t",
    "bracket": "attention:q=[1,2",
    "too_large": "moe:t=1099511627777",
    "beyond_int64": "attention:pre=9223372036854775808",
    "million": "attention:q=[1x1048576,1]",
    "nan": "attention:scale=nan",
    "word": "moe:dtype=float",
    "spaces": "moe:t=\t5",
    "empty": "",
}
for name, text in PROBLEMS.items():
    seed("problem", name, text)

# --- .npy


def npy(shape, data, descr="<f4", order="False", version=1):
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    size = struct.pack("<H", len(text)) if version == 1 else struct.pack("<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + bytes(data)


NPY = {
    "f32": npy("(2, 3)", range(24)),
    "f16": npy("(3,)", range(6), "<f2"),
    "f64": npy("()", range(8), "<f8"),
    "i32_fortran": npy("(2, 3)", range(24), "<i4", "True"),
    "i64_empty": npy("(0, 7)", b"", "<i8"),
    "u8_rank8": npy("(1, 1, 2, 1, 1, 1, 1, 2)", range(4), "|u1"),
    "bool": npy("(2,)", [0, 1], "|b1"),
    "bf16": npy("(2, 2)", range(8), "|V2"),
    "u16_version2": npy("(2,)", range(4), "<u2", version=2),
    "version3": npy("(1,)", range(4), version=3),
    "version9": npy("(1,)", range(4), version=9),
    "truncated": npy("(2, 3)", range(20)),
    "longer": npy("(2, 3)", range(28)),
    "overflow": npy("(4294967296, 4294967296)", range(16)),
    "big_endian": npy("(1,)", range(4), ">f4"),
    "rank9": npy("(1, 1, 1, 1, 1, 1, 1, 1, 1)", range(4)),
    "negative": npy("(-1,)", b""),
    "short": b"\x93NUMPY\1\0",
    "lying_length": b"\x93NUMPY\2\0\xff\xff\xff\xff{}",
    "twice": b"\x93NUMPY\1\0\x26\0{'descr': '<f4', 'descr': '<f4',      }",
    "unclosed": b"\x93NUMPY\1\0\x10\0{'descr': '<f4'",
}
for name, content in NPY.items():
    seed("npy", name, content)

# --- .safetensors: a header without its length, and whole files


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def tensors(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


SAFETENSORS = {
    "one": {"a": entry([2], 0, 8)},
    "two": {"b": entry([1, 1], 2, 10, "F64"), "a": entry([2], 0, 2, "BOOL"), "__metadata__": {"call": "{}"}},
    "types": {"a": entry([1], 0, 2, "F16"), "b": entry([1], 2, 4, "BF16"), "c": entry([], 4, 8, "I32"),
              "d": entry([1], 8, 16, "I64"), "e": entry([0], 16, 16, "U8")},
    "lie": {"a": entry([3], 0, 8)},
    "overlap": {"a": entry([2], 0, 8), "b": entry([2], 4, 12)},
    "hole": {"a": entry([2], 4, 12)},
    "wide": {"a": entry([1 << 32, 1 << 32], 0, 8)},
    "back": {"a": entry([2], 8, 0)},
    "slip": {"../a": entry([2], 0, 8)},
    "f8": {"a": entry([2], 0, 2, "F8_E4M3")},
}
for name, header in SAFETENSORS.items():
    size = max((t["data_offsets"][1] for t in header.values() if "data_offsets" in t), default=0)
    seed("safetensors", name + "_header", json.dumps(header).encode() + b"\0" + bytes(size))
    seed("safetensors", name + "_file", tensors(header, size))
seed("safetensors", "tail_file", tensors(SAFETENSORS["one"], 9))
seed("safetensors", "cut_file", tensors(SAFETENSORS["one"], 7))
seed("safetensors", "long_file", tensors(SAFETENSORS["one"], 8, 1 << 40))
seed("safetensors", "deep_header", b'{"a":' + b"[" * 3000)
ONE = json.dumps(entry([2], 0, 8))
seed("safetensors", "twice_header", f'{{"a":{ONE},"a":{ONE}}}'.encode() + bytes(9))
seed("safetensors", "short_file", b"abc")

# --- .npz


def archive(members, packing=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as zipped:
        for name, content in members:
            zipped.writestr(zipfile.ZipInfo(name), content, packing)
    return file.getvalue()


SMALL = npy("(4,)", 16)
PACKED = archive([("a.npy", SMALL)], zipfile.ZIP_DEFLATED)
NPZ = {
    "stored": archive([("a.npy", SMALL), ("call.json", "{}")]),
    "packed": PACKED,
    "slip": archive([("../evil.npy", SMALL)]),
    "other": archive([("a.exe", b"x")]),
    "lie": archive([("a.npy", npy("(5,)", 16))]),
    "bomb": archive([("a.npy", npy("(600000,)", 2400000))], zipfile.ZIP_DEFLATED),
    "many": archive([(f"a{i}.npy", npy("(90000,)", 360000)) for i in range(4)], zipfile.ZIP_DEFLATED),
    "cut": PACKED[:len(PACKED) // 2],
    "flipped": PACKED[:70] + bytes([PACKED[70] ^ 255]) + PACKED[71:],
    "empty": archive([]),
    "members": b"\0\1" + struct.pack("<B", len(SMALL)) + SMALL,
    "members_two": b"".join(bytes([i, i]) + struct.pack("<B", len(SMALL)) + SMALL for i in (0, 1)),
}
for name, content in NPZ.items():
    seed("npz", name, content)

# --- raw

RAW = {
    "f32": b"f32\x002,3\0" + bytes(24),
    "scalar": b"f64\0\0" + bytes(8),
    "rank8": b"u8\x001,1,1,1,1,1,1,2\0" + bytes(2),
    "rank9": b"u8\x001,1,1,1,1,1,1,1,1\0" + bytes(1),
    "empty": b"bool\x000,5\0",
    "comma": b"i32\x002,\0" + bytes(8),
    "negative": b"i64\x00-1\0",
    "dtype": b"f8\x001\0" + bytes(1),
    "beyond_int64": b"f16\x0099999999999999999999,0\0",
    "overflow": b"f16\x004294967296,4294967296\0" + bytes(2),
    "spaces": b"bf16\x00 1\0" + bytes(2),
    "plus": b"bf16\x00+1\0" + bytes(2),
    "minus_zero": b"i64\x00-0\0",
    "short": b"f32\x002,3\0" + bytes(23),
}
for name, content in RAW.items():
    seed("raw", name, content)

# --- recorded calls: JSON, 0, then the choices of fuzz_recorded.c and fuzz_write_npy

TYPES = {"f32": 0, "bf16": 1, "f16": 2, "i32": 3, "i64": 4, "u8": 5, "bool": 6, "f64": 7}
NAMES = {
    "attention": "query queryRope keyIn keyInRope value dy attenMask softmaxMax softmaxSum attentionIn dq dqRope dk dkRope dv",
    "indexer": "query key dy sparseIndices weights actualSeqQLen actualSeqKvLen dq dk dweights",
    "moe": "unpermutedTokensGrad sortedIndices permutedTokens probs permutedTokensGrad probsGrad",
}


def choices(dtype, dims, fill=(60, 1)):
    return bytes([TYPES[dtype], len(dims), *dims, *fill])


def tensors_of(operator, **files):
    names = NAMES[operator].split()
    return bytes([list(NAMES).index(operator)]) + b"".join(
        bytes([names.index(name)]) + choices(*file) for name, file in files.items())


def attention(dtype="f32", **more):
    head, stat = (dtype, [4, 2, 3]), ("f32", [4, 2, 8])
    return tensors_of("attention", query=head, keyIn=head, value=head, dy=head, softmaxMax=stat, softmaxSum=stat,
                      attentionIn=head, dq=head, **more)


def indexer(fill):
    return tensors_of("indexer", query=("f32", [3, 2, 4]), key=("f32", [5, 1, 4]), dy=("f32", [3, 6]),
                      sparseIndices=("i32", [3, 6], fill), weights=("f32", [3, 2]), actualSeqQLen=("i32", [1], (3, 0)),
                      actualSeqKvLen=("i32", [1], (5, 0)))


MOE = tensors_of("moe", unpermutedTokensGrad=("f32", [3, 5]), sortedIndices=("i32", [6], (0, 0)),
                 permutedTokens=("f32", [6, 5]), probs=("f32", [3, 2]), probsGrad=("f32", [3, 2]))


def notes(operator, arguments, **more):
    return json.dumps({"operator": operator, "arguments": arguments, **more}).encode() + b"\0"


LENGTHS = {"actualSeqQLen": [2, 4], "actualSeqKvLen": [1, 4], "headNum": 2, "scaleValue": 0.5, "inputLayout": "TND"}
RECORDED = {
    "attention": notes("attention", LENGTHS) + attention(),
    "attention_window": notes("attention", {**LENGTHS, "preTokens": 1, "nextTokens": 0, "sparseMode": 0})
    + attention("f16", attenMask=("u8", [4, 4], (0, 1))),
    "attention_prefix": notes("attention", {**LENGTHS, "sparseMode": 6, "prefix": [1, 0]}) + attention("bf16"),
    "falling": notes("attention", {**LENGTHS, "actualSeqQLen": [4, 2]}) + attention(),
    "view": notes("attention", LENGTHS, views={"dy": {"shape": [4, 2, 3], "strides": [0, 1, 1], "offset": 3}}) + attention(),
    "view_leaves": notes("attention", LENGTHS, views={"dy": {"shape": [4, 2, 3], "strides": [6, 3, 1], "offset": 1}})
    + attention(),
    "view_huge": notes("attention", LENGTHS, views={"dy": {"shape": [1 << 30, 2], "strides": [0, 1], "offset": 0}})
    + attention(),
    "view_nobody": notes("moe", {"topkNum": 2}, views={"x": {"shape": [], "strides": []}}) + MOE,
    "indexer": notes("indexer", {"inputLayout": "TND", "sparseMode": 3}) + indexer((0, 0)),
    "indexer_wild": notes("aclnnLightningIndexerGrad", {"layout": "TND", "sparse_mode": 0}) + indexer((0, 3)),
    "indexer_lengths": notes("indexer", {"inputLayout": "TND", "actualSeqQLen": [3], "actualSeqKvLen": [1 << 33]})
    + indexer((0, 0)),
    "moe": notes("moe", {"topkNum": 2, "range": [1, 5], "expertEnds": [2, 6], "paddedMode": False}) + MOE,
    "moe_null": notes("moe", {"topkNum": 2, "range": None, "expertEnds": [2.5]}) + MOE,
    "ignored": notes("moe", {"topkNum": 2, "other": {}, "restoreShape": [1]}) + MOE,
    "no_operator": b"{}\0" + MOE,
    "no_json": b"{\0" + MOE,
    "no_tensor": notes("moe", {"topkNum": 2}),
    "types": notes("attention", {**LENGTHS, "headNum": "2", "scaleValue": [1], "prefix": 3}) + attention(),
}
for name, content in RECORDED.items():
    seed("recorded", name, content)


# --- msprobe: dump.json, 0, then a.npy, b.npy, ...


def tensor(file, dtype="torch.float32"):
    return {"type": "torch.Tensor", "dtype": dtype, "data_name": file + ".npy"}


def value(number):
    return {"type": type(number).__name__, "value": number}


def dump(calls, *files):
    return json.dumps({"task": "tensor", "data": calls}).encode() + b"\0" + b"".join(choices(*file) for file in files)


HEAD, STATISTICS = ("f32", [4, 2, 3]), ("f32", [4, 2, 8])
SCALARS = {"scale_value": value(0.5), "sparse_mode": value(0), "actual_seq_qlen": [value(2), value(4)],
           "actual_seq_kvlen": [value(1), value(4)], "keep_prob": value(1.0)}
GRAD = {"input_args": [tensor("a"), tensor("b"), tensor("c"), tensor("d"), value(2), value("TND")],
        "input_kwargs": {"softmax_max": tensor("e"), "softmax_sum": tensor("f"), "attention_in": tensor("g"), **SCALARS},
        "output": [tensor("h"), None, {"type": "torch.Tensor"}]}
GRAD_FILES = (HEAD, HEAD, HEAD, HEAD, STATISTICS, STATISTICS, HEAD, HEAD)
NAME = "NPU.npu_fusion_attention_grad.0.forward"
MSPROBE = {
    "attention_grad": dump({NAME: GRAD}, *GRAD_FILES),
    "attention_bf16": dump({NAME: {**GRAD, "input_args": [tensor(f, "torch.bfloat16") for f in "abcd"] + [value(2)]}},
                           *GRAD_FILES),
    "attention_pair": dump({"NPU.npu_fusion_attention.0.forward":
                            {"input": [tensor("a"), tensor("b"), tensor("c"), value(2), value("TND")],
                             "input_kwargs": SCALARS, "output": [tensor("d"), tensor("e"), tensor("f")]},
                            "NPU.npu_fusion_attention.0.backward": {"input": [tensor("g")], "output": [tensor("h")]}},
                           HEAD, HEAD, HEAD, HEAD, STATISTICS, STATISTICS, HEAD, HEAD),
    "no_backward": dump({"NPU.npu_fusion_attention.0.forward": {"input_args": []}}),
    "indexer_grad": dump({"NPU.npu_lightning_indexer_grad.0.forward":
                          {"input_args": [tensor(f) for f in "abcde"] + [[3], [5], value("TND"), value(3)],
                           "output": [tensor("a")]}},
                         ("f32", [3, 2, 4]), ("f32", [5, 1, 4]), ("f32", [3, 6]), ("i32", [3, 6], (0, 0)), ("f32", [3, 2])),
    "moe_grad": dump({"NPU.npu_moe_token_unpermute_grad.1.forward":
                      {"input_args": [tensor("a"), tensor("b"), tensor("c"), tensor("d"), value(False), None],
                       "output": []}},
                     ("f32", [6, 5]), ("f32", [3, 5]), ("i32", [6], (0, 0)), ("f32", [3, 2])),
    "two_calls": dump({NAME: GRAD, NAME.replace("0", "1"): GRAD}, *GRAD_FILES),
    "none": dump({"Tensor.add.0.forward": {}}),
    "statistics_task": dump({NAME: {**GRAD, "input_args": [{"type": "torch.Tensor", "Max": 1}]}}),
    "path": dump({NAME: {**GRAD, "input_args": [tensor("../a")]}}),
    "pickle": dump({NAME: {**GRAD, "input_args": [{"type": "torch.Tensor", "data_name": "a.pt"}]}}),
    "missing": dump({NAME: {**GRAD, "input_args": [tensor("z")]}}),
    "no_data": b'{"data": 3}\0',
    "no_json": b"[1, 2\0",
}
for name, content in MSPROBE.items():
    seed("msprobe", name, content)

# --- operators and run time: the choices are the engines' to find; here is any start

RANDOM = random.Random(1)
for target in ("attention", "indexer", "moe", "runtime", "forward_attention"):
    for number in range(6):
        seed(target, f"sound_{number}", bytes([0]) + RANDOM.randbytes(90))
        seed(target, f"damaged_{number}", bytes([1]) + RANDOM.randbytes(90))
