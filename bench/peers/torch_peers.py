#!/usr/bin/env python3
"""Times PyTorch on the product's work, after its result on a small problem of the same kind was held against the product's.

    torch_peers.py [--aclgrad PATH] [--seconds N] [--threads N] [--csv] PROBLEM...

Each operator in the best form found: attention by scaled_dot_product_attention's own backward where this PyTorch has it (from
2.1 on), else as products of query blocks with the prefix that they see; the indexer as gather and products; the unpermute by
gathers alone, every buffer allocated before. Problems that it cannot do (masks of bytes, bands, float16 on old versions) give
no row."""
import argparse
import csv
import math
import re
import subprocess
import sys
import tempfile
import time

import numpy
import torch

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
QUERY_BLOCK = 256


# --- problems -------------------------------------------------------------------------------------------------------

def canonical(aclgrad, problem):
    """The canonical string; `explain` knows layers by name."""
    text = subprocess.run([aclgrad, "--csv", "explain", problem], stdout=subprocess.PIPE, check=True).stdout.decode()
    return next(row[2] for row in csv.reader(text.splitlines()) if row[:2] == ["problem", "string"])


def parse(problem):
    """(operator, keys); lists are lists of integers."""
    operator, text = problem.split(":", 1)
    keys = {}
    for key, value in re.findall(r"(\w+)=(\[[^\]]*\]|[^,]+)", text):
        if value.startswith("["):
            items = [item.split("x") for item in value[1:-1].split(",") if item]
            keys[key] = [int(item[0]) for item in items for _ in range(int(item[1]) if len(item) > 1 else 1)]
        else:
            keys[key] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return operator, keys


def load(directory, name):
    array = numpy.load(f"{directory}/{name}.npy")
    if array.dtype.kind == "V": # bf16
        return torch.from_numpy(array.view(numpy.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def blocks_of(lengths):
    ends = numpy.cumsum(lengths)
    return [slice(int(end - length), int(end)) for end, length in zip(ends, lengths)]


# --- attention ------------------------------------------------------------------------------------------------------

class Attention:
    outputs = ["dq", "dqRope", "dk", "dkRope", "dv"]

    def __init__(self, keys):
        self.n1, self.d, self.dr = keys.get("n1", 1), keys.get("d", 128), keys.get("dr", 0)
        self.n2, self.dv = keys.get("n2", self.n1), keys.get("dv", self.d)
        self.causal, self.lengths = keys.get("mode", 0) == 3, keys["q"]
        self.dtype = TYPES[keys.get("dtype", "bf16")]
        self.scale = 1 / math.sqrt(self.d + self.dr)
        self.keys = keys

    def can(self):
        plain = self.causal or (self.keys.get("mode", 0) == 0 and self.keys.get("mask", "none") in ("none", "auto") and not self.dr)
        return plain and self.keys.get("kv", self.lengths) == self.lengths and not {"qends", "kvends", "pre", "next"} & set(self.keys)

    def small(self):
        rope = f",dr={self.dr}" if self.dr else ""
        dtype = next(word for word, dtype in TYPES.items() if dtype == self.dtype)
        return f"attention:q=[90,38],n1={self.n1},n2={self.n2},d={self.d}{rope},dv={self.dv},dtype={dtype},mode={3 * self.causal}"

    def random(self):
        rows = sum(self.lengths)
        return [torch.randn(rows, n, d).to(self.dtype) for n, d in
                ((self.n1, self.d + self.dr), (self.n2, self.d + self.dr), (self.n2, self.dv), (self.n1, self.dv))]

    def load(self, directory):
        self.lengths = [90, 38]
        parts = [[load(directory, name) for name in names[:1 + (self.dr > 0)]]
                 for names in (["query", "queryRope"], ["keyIn", "keyInRope"])]
        return [torch.cat(part, 2) for part in parts] + [load(directory, "value"), load(directory, "dy")]

    def split(self, grads):
        dq, dk, dv = grads
        parts = [dq[..., :self.d], dq[..., self.d:], dk[..., :self.d], dk[..., self.d:], dv]
        return {name: part for name, part in zip(self.outputs, parts) if part.shape[-1]}

    def prepare(self, q, k, v, dy):
        """A function that computes the gradients [T, N, D] of the packed inputs."""
        if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 1):
            return self.prepare_fused(q, k, v, dy)
        return lambda: self.by_blocks(q, k, v, dy)

    def prepare_fused(self, q, k, v, dy):
        """The value is padded to the key's dim: the fused kernel wants them alike."""
        pad = (0, q.shape[2] - v.shape[2])
        v, dy = torch.nn.functional.pad(v, pad), torch.nn.functional.pad(dy, pad)
        graphs = []
        for rows in blocks_of(self.lengths):
            parts = [x[rows].transpose(0, 1).unsqueeze(0).contiguous().requires_grad_() for x in (q, k, v)]
            wide = [x.repeat_interleave(self.n1 // self.n2, 1) if self.n1 != self.n2 else x for x in parts[1:]]
            out = torch.nn.functional.scaled_dot_product_attention(parts[0], *wide, is_causal=self.causal, scale=self.scale)
            graphs.append((out, parts, dy[rows].transpose(0, 1).unsqueeze(0).contiguous()))

        def run():
            grads = [torch.autograd.grad(out, parts, dout, retain_graph=True) for out, parts, dout in graphs]
            dq, dk, dv = ([x[i][0].transpose(0, 1) for x in grads] for i in range(3))
            return torch.cat(dq), torch.cat(dk), torch.cat(dv)[..., :self.dv]
        return run

    def forward(self, q, k, v, i):
        """Softmax of a query block over the prefix that it sees, and its output: [N, rows, ...]."""
        end = min(i + QUERY_BLOCK, q.shape[1]) if self.causal else k.shape[1]
        rows = slice(i, min(i + QUERY_BLOCK, q.shape[1]))
        score = torch.matmul(q[:, rows], k[:, :end].transpose(1, 2)).float() * self.scale
        if self.causal:
            hidden = torch.arange(end)[None, :] > torch.arange(rows.start, rows.stop)[:, None]
            score.masked_fill_(hidden, -math.inf)
        return rows, end, torch.softmax(score, 2)

    def by_blocks(self, q, k, v, dy):
        results = [torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)]
        group = self.n1 // self.n2
        for sequence in blocks_of(self.lengths):
            q_s, dy_s = q[sequence].transpose(0, 1).contiguous(), dy[sequence].transpose(0, 1).contiguous()
            k_s, v_s = (x[sequence].transpose(0, 1).repeat_interleave(group, 0).contiguous() for x in (k, v))
            dk, dv, dq = torch.zeros(k_s.shape), torch.zeros(v_s.shape), torch.empty_like(q_s)
            for i in range(0, q_s.shape[1], QUERY_BLOCK):
                rows, end, p = self.forward(q_s, k_s, v_s, i)
                dp = torch.matmul(dy_s[:, rows], v_s[:, :end].transpose(1, 2)).float()
                ds = (p * (dp - (p * dp).sum(2, keepdim=True)) * self.scale).to(self.dtype)
                dv[:, :end] += torch.matmul(p.to(self.dtype).transpose(1, 2), dy_s[:, rows])
                dk[:, :end] += torch.matmul(ds.transpose(1, 2), q_s[:, rows])
                dq[:, rows] = torch.matmul(ds, k_s[:, :end])
            results[0][sequence] = dq.transpose(0, 1)
            results[1][sequence] = dk.unflatten(0, (self.n2, group)).sum(1).transpose(0, 1).to(self.dtype)
            results[2][sequence] = dv.unflatten(0, (self.n2, group)).sum(1).transpose(0, 1).to(self.dtype)
        return results


# --- indexer --------------------------------------------------------------------------------------------------------

class Indexer:
    outputs = ["dq", "dk", "dweights"]

    def __init__(self, keys):
        self.n, self.k, self.keys = keys.get("n", 64), keys.get("k", 2048), keys
        self.q, self.kv = keys["q"], keys.get("kv", keys["q"])
        self.dtype = TYPES[keys.get("dtype", "bf16")]

    def can(self):
        return len(self.q) == 1 and self.keys.get("d", 128) == 128 and not {"qends", "kvends", "t1", "t2"} & set(self.keys)

    def small(self):
        dtype = next(word for word, dtype in TYPES.items() if dtype == self.dtype)
        return f"indexer:q=[32],kv=[200],n={self.n},k={min(self.k, 64)},dtype={dtype}"

    def random(self):
        q, kv = self.q[0], self.kv[0]
        limits = [min(self.k, kv - q + row + 1) for row in range(q)]
        indices = torch.full((q, self.k), -1, dtype=torch.int64)
        for row, limit in enumerate(limits):
            indices[row, :limit] = torch.randperm(kv - q + row + 1)[:limit]
        return [torch.randn(q, self.n, 128).to(self.dtype), torch.randn(kv, 128).to(self.dtype),
                torch.randn(q, self.k).to(self.dtype), indices, torch.randn(q, self.n).to(self.dtype)]

    def load(self, directory):
        query, key, dy, indices, weights = (load(directory, name) for name in ("query", "key", "dy", "sparseIndices", "weights"))
        limits = torch.arange(indices.shape[-1])[None, :] >= torch.arange(200 - 32 + 1, 201)[:, None]
        indices = indices.reshape(32, -1).long().masked_fill(limits, -1)
        return [query.reshape(32, self.n, 128), key.reshape(200, 128), dy.reshape(32, -1), indices, weights.reshape(32, self.n)]

    def split(self, grads):
        return dict(zip(self.outputs, grads))

    def prepare(self, query, key, dy, indices, weights):
        live = [(row[row >= 0], values[row >= 0]) for row, values in zip(indices, dy)]

        def run():
            dq, dweights, dk = torch.empty_like(query), torch.empty_like(weights), torch.zeros(key.shape)
            for row, (numbers, values) in enumerate(live):
                gathered = key.index_select(0, numbers)
                score = torch.matmul(query[row], gathered.t()) # [N, K]
                dweights[row] = torch.mv(score.clamp(min=0), values)
                flow = torch.outer(weights[row], values) * (score > 0)
                dq[row] = torch.matmul(flow, gathered)
                dk.index_add_(0, numbers, torch.matmul(flow.t(), query[row]).float())
            return dq, dk.to(key.dtype), dweights
        return run


# --- unpermute ------------------------------------------------------------------------------------------------------

class Unpermute:
    outputs = ["permutedTokensGrad", "probsGrad"]

    def __init__(self, keys):
        self.t, self.k, self.h, self.keys = keys.get("t", 64), keys.get("k", 8), keys.get("h", 1024), keys
        self.begin, self.end = keys.get("range", [0, self.t * self.k])
        self.dtype = TYPES[keys.get("dtype", "bf16")]

    def can(self):
        odd = {"outrows", "probs", "permuted", "topknum", "padded"} & set(self.keys)
        return not odd and self.keys.get("rows", self.end - self.begin) == self.end - self.begin

    def small(self):
        dtype = next(word for word, dtype in TYPES.items() if dtype == self.dtype)
        return f"moe:t=40,k={self.k},h=200,range=[{self.k * 5},{self.k * 30}],dtype={dtype}"

    def random(self):
        rows = self.end - self.begin
        return [torch.randn(self.t, self.h).to(self.dtype), torch.randperm(self.t * self.k),
                torch.randn(rows, self.h).to(self.dtype), torch.rand(self.t, self.k).to(self.dtype)]

    def load(self, directory):
        self.begin, self.end = self.k * 5, self.k * 30
        grad, indices, tokens, probs = (load(directory, name) for name in
                                        ("unpermutedTokensGrad", "sortedIndices", "permutedTokens", "probs"))
        return [grad, indices.long(), tokens, probs]

    def split(self, grads):
        return dict(zip(self.outputs, grads))

    def prepare(self, grad, indices, tokens, probs):
        slots = torch.empty_like(indices)
        slots[indices] = torch.arange(len(indices))
        slots = slots[self.begin:self.end] # of each row here
        tokens_of, rows = slots // probs.shape[1], len(slots)
        gathered, out = torch.empty_like(tokens), torch.empty_like(tokens)
        weights, dots = torch.empty(rows, dtype=grad.dtype), torch.empty(rows, 1, 1, dtype=grad.dtype)
        probs_grad = torch.zeros(probs.numel(), dtype=grad.dtype)

        def run():
            torch.index_select(grad, 0, tokens_of, out=gathered)
            torch.index_select(probs.view(-1), 0, slots, out=weights)
            torch.bmm(tokens.unsqueeze(1), gathered.unsqueeze(2), out=dots)
            torch.mul(gathered, weights.unsqueeze(1), out=out)
            probs_grad.index_copy_(0, slots, dots.view(-1))
            return out, probs_grad.view(probs.shape)
        return run


# --- all ------------------------------------------------------------------------------------------------------------

OPERATORS = {"attention": Attention, "indexer": Indexer, "moe": Unpermute}


def check(work, aclgrad):
    """The same code on a small problem, against the product's gradients."""
    with tempfile.TemporaryDirectory() as directory:
        for command, where in (("gen", "inputs"), ("run", "outputs")):
            subprocess.run([aclgrad, "-q", command, "--limits", "extended", "-o", f"{directory}/{where}", work.small()],
                           stdout=subprocess.DEVNULL, check=True)
        grads = work.split(work.prepare(*work.load(f"{directory}/inputs"))())
        for name, got in grads.items():
            want = load(f"{directory}/outputs", name).double().reshape(got.shape)
            error = float((got.double() - want).norm() / want.norm())
            if not error < (0.03 if work.dtype == torch.bfloat16 else 0.003):
                sys.exit(f"torch: {name} of {work.small()} differs from the product's by {error:g} of its norm")


def measure(run, seconds):
    """Three runs at least; one where it takes more than five times the seconds."""
    times = []
    run()
    begin = time.perf_counter()
    while len(times) < (1 if times and times[0] > 5e3 * seconds else 3) or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--aclgrad", default="build-peers/bin/aclgrad")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--csv", action="store_true", help="the only form")
    parser.add_argument("problems", nargs="+")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    writer = csv.writer(sys.stdout)
    writer.writerow(["min_ms", "median_ms", "runs", "peer", "problem"])
    for problem in given.problems:
        text = canonical(given.aclgrad, problem)
        operator, keys = parse(text)
        if operator not in OPERATORS or not OPERATORS[operator](keys).can():
            continue
        try:
            check(OPERATORS[operator](keys), given.aclgrad)
            work = OPERATORS[operator](keys)
            times = measure(work.prepare(*work.random()), given.seconds)
        except RuntimeError as error: # "not implemented for 'Half'"
            print(f"torch: {text}: {error}", file=sys.stderr)
            continue
        writer.writerow([f"{times[0]:.6g}", f"{times[len(times) // 2]:.6g}", len(times), f"torch-{torch.__version__}", text])


if __name__ == "__main__":
    main()
