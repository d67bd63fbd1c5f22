"""Goldens of aclnnFlashAttentionUnpaddingScoreGradV3: autograd through softmax attention, a sequence and a head at a time.

The operator does not get the forward's exact statistics and output but their roundings to float and to the tensors'
type, and by contract it must use them as given. So the gradient is taken twice:

    exact    autograd of the plain softmax
    frozen   autograd of the same with maximum, sum and output as given constants: for softmax with output o, the
             derivative of dy . o by the scores equals that of  sum_j p_j (dy . v_j) - (dy . o) sum_j p_j  when the
             numbers behind p = exp(score - max) / sum and o stand still

With exact constants both are the same, which is asserted for every golden; the file holds the second, with the rounded
ones. Ring attention is the same with statistics of more keys than the call has (`earlier`).
"""
import math

import numpy
import torch

from golden_file import Golden, normal, random_of, rounded

INFINITE_TOKENS = 2147483647


# --- which columns a row sees ---------------------------------------------------------------------------------------

def visible(mode, i, j, queries, keys, pre, nxt, prefix, is_band):
    """The table of sparse modes; modes 0 and 1 look at the mask's bytes besides."""
    shift = keys - queries
    if mode == 7:
        mode = 4 if is_band else 3
    if mode == 8:
        mode = 4 if is_band else 2
    if mode == 0:
        return i - j <= pre and j - i <= nxt
    if mode == 1:
        return True
    if mode == 2:
        return j <= i
    if mode == 3:
        return j <= i + shift
    if mode == 4:
        return i + shift - pre <= j <= i + shift + nxt
    return j <= i + shift or j < prefix  # 6


def lengths_of(ends):
    """(first row, number of rows) of each entry of a list of cumulative ends; zeros at the end are no sequences."""
    rows, before = [], 0
    for end in ends:
        rows.append((before, max(end - before, 0)))
        before = max(end, before)
    return rows


def visibility(c):
    """Per sequence and query head a matrix of booleans [Sq, Skv]."""
    sequences = list(zip(c.q_rows, c.kv_rows))
    with_queries = [b for b, (_, count) in enumerate(c.q_rows) if count]
    band = (with_queries or [0])[-1 if c.mode == 7 else 0]
    sees = []
    for b, ((_, queries), (_, keys)) in enumerate(sequences):
        for n in range(c.n1):
            matrix = numpy.ones((queries, keys), bool)
            for i in range(queries if c.mask is not None else 0):  # without a mask all is visible
                for j in range(keys):
                    matrix[i, j] = visible(c.mode, i, j, queries, keys, c.pre, c.nxt, c.prefix[b], b == band)
                    if c.mode in (0, 1):
                        matrix[i, j] &= c.mask[min(b, len(c.mask) - 1), min(n, len(c.mask[0]) - 1), i, j] == 0
            sees.append(torch.from_numpy(matrix))
    return sees


# --- forward --------------------------------------------------------------------------------------------------------

def products(a, b):
    """[rows, dim], [columns, dim] -> [rows, columns]"""
    return (a[:, None, :] * b[None, :, :]).sum(-1)


def plain(scores, value, sees):
    """Softmax over what is seen: statistics and output; rows that see nothing have output 0."""
    some = sees.any(-1)
    hidden = torch.where(sees, scores, torch.full_like(scores, -math.inf))
    top = torch.where(some, hidden.max(-1).values, torch.zeros(len(some), dtype=torch.float64)).detach()
    weights = torch.where(sees, torch.exp(torch.where(sees, scores, top[:, None]) - top[:, None]), 0.0)
    total = torch.where(some, weights.sum(-1), 1.0)
    return top, total, (weights[:, :, None] * value[None, :, :]).sum(1) / total[:, None]


def frozen_loss(scores, value, sees, top, total, out, dy):
    p = torch.where(sees, torch.exp(torch.where(sees, scores, top[:, None]) - top[:, None]) / total[:, None], 0.0)
    return (p * products(dy, value)).sum() - ((dy * out).sum(-1) * p.sum(-1)).sum()


class Case:
    """Sizes and arguments; what `make` was called with, completed."""

    def __init__(self, dtype="bf16", mode=0, mask=None, n1=1, n2=1, d=8, dr=0, dv=None, q=(5, ), kv=None, q_slack=0,
                 kv_slack=0, pre=INFINITE_TOKENS, nxt=INFINITE_TOKENS, prefix=None, prefix_argument=None, scale=None,
                 order="cann", earlier=0, mask_extra=0, mask_dtype="u8", flat=False, deviation=1):
        self.dtype, self.mode, self.mask_kind, self.n1, self.n2 = dtype, mode, mask, n1, n2
        self.d, self.dr, self.dv = d, dr, d if dv is None else dv
        self.q_ends, self.kv_ends = list(q), list(q if kv is None else kv)
        self.q_rows, self.kv_rows = lengths_of(self.q_ends), lengths_of(self.kv_ends)
        self.t1, self.t2 = max(self.q_ends) + q_slack, max(self.kv_ends) + kv_slack
        self.q_slack, self.kv_slack, self.pre, self.nxt = q_slack, kv_slack, pre, nxt
        self.prefix_argument = prefix if prefix_argument is None else prefix_argument
        self.prefix = list(prefix or []) + [0] * len(self.q_ends)
        self.scale = float(numpy.float32(1 / math.sqrt(d + dr) if scale is None else scale))  # the operator narrows it
        self.order, self.earlier, self.mask_extra, self.mask_dtype = order, earlier, mask_extra, mask_dtype
        self.flat, self.deviation, self.mask = flat, deviation, None

    def make_mask(self, random):
        """Logical mask [B or 1, N1 or 1, max Sq, max Skv]; None without; the compressed ones are never looked at."""
        if self.mask_kind == "compressed":
            self.mask = numpy.zeros((1, 1, 1, 1))
        elif self.mask_kind:
            first = {"ss": (1, 1), "11ss": (1, 1), "b1ss": (len(self.q_ends), 1), "bnss": (len(self.q_ends), self.n1)}
            most = [max(count for _, count in rows) + self.mask_extra for rows in (self.q_rows, self.kv_rows)]
            shape = first[self.mask_kind] + tuple(most)
            self.mask = (random.randint(0, 3, shape) == 0) * random.randint(1, 255, shape)
            self.mask[..., min(2, most[0] - 1), :] = 9  # a row that sees nothing
            if self.mask_dtype == "bool":
                self.mask = self.mask != 0


# --- the gradients of a whole pack ----------------------------------------------------------------------------------

NAMES = ("query", "queryRope", "keyIn", "keyInRope", "value")


def random_inputs(c, random):
    shapes = ((c.t1, c.n1, c.d), (c.t1, c.n1, c.dr), (c.t2, c.n2, c.d), (c.t2, c.n2, c.dr), (c.t2, c.n2, c.dv))
    inputs = {name: normal(random, shape, c.deviation) for name, shape in zip(NAMES, shapes)}
    if c.flat:  # all scores of a row are equal
        inputs["query"][:] = 0
    return inputs, normal(random, (c.t1, c.n1, c.dv))


def scores_of(c, x, b, n, key, key_rope):
    (begin, count), rows = c.q_rows[b], slice(c.q_rows[b][0], c.q_rows[b][0] + c.q_rows[b][1])
    assert begin + count <= c.t1
    return c.scale * (products(x["query"][rows, n], key) + products(x["queryRope"][rows, n], key_rope))


def of_keys(c, x, b, n):
    """Key, its rope and value that query head n of sequence b reads: heads share them in groups."""
    begin, count = c.kv_rows[b]
    return [x[name][begin:begin + count, n // (c.n1 // c.n2)] for name in ("keyIn", "keyInRope", "value")]


def earlier_keys(c, random):
    """Keys and values of each sequence that another call of the ring has."""
    return [[torch.from_numpy(normal(random, (c.earlier, dim))) for dim in (c.d, c.dr, c.dv)] for _ in c.q_ends]


def each_head(c):
    index = 0
    for b, (begin, count) in enumerate(c.q_rows):
        for n in range(c.n1):
            yield index, b, n, slice(begin, begin + count)
            index += 1


def forward(c, x, sees, earlier):
    """Statistics [T1, N1] and output [T1, N1, Dv], and the exact loss for dy."""
    top = numpy.full((c.t1, c.n1), numpy.nan)
    total, out = top.copy(), numpy.full((c.t1, c.n1, c.dv), numpy.nan)
    outs = []
    for index, b, n, rows in each_head(c):
        key, key_rope, value = of_keys(c, x, b, n)
        seen, scores = sees[index], scores_of(c, x, b, n, key, key_rope)
        if c.earlier:  # constants here: their gradients are the other call's business
            others = scores_of(c, {name: leaf.detach() for name, leaf in x.items()}, b, n, *earlier[b][:2])
            scores = torch.cat([others, scores], 1)
            seen = torch.cat([torch.ones_like(others, dtype=torch.bool), seen], 1)
            value = torch.cat([earlier[b][2], value])
        if seen.shape[0] == 0 or seen.shape[1] == 0:
            continue
        some = seen.any(-1).numpy()
        tops, totals, output = plain(scores, value, seen)
        outs.append((rows, n, output))
        top[rows, n] = numpy.where(some, tops.numpy(), numpy.nan)  # of a row that sees nothing none is read
        total[rows, n] = numpy.where(some, totals.detach().numpy(), numpy.nan)
        out[rows, n] = numpy.where(some[:, None], output.detach().numpy(), numpy.nan)
    return top, total, out, outs


def exact_gradients(leaves, dy, outs):
    loss = sum(0 * leaf.sum() for leaf in leaves)  # a leaf that nothing uses has gradient 0
    for rows, n, output in outs:
        loss = loss + (output * dy[rows, n]).sum()
    return torch.autograd.grad(loss, leaves, retain_graph=True)


def frozen_gradients(c, x, sees, dy, top, total, out):
    loss = sum(0 * leaf.sum() for leaf in x.values())
    top, total, out = [torch.from_numpy(numpy.nan_to_num(array, nan=1)) for array in (top, total, out)]
    for index, b, n, rows in each_head(c):
        key, key_rope, value = of_keys(c, x, b, n)
        if sees[index].numel():
            scores = scores_of(c, x, b, n, key, key_rope)
            loss = loss + frozen_loss(scores, value, sees[index], top[rows, n], total[rows, n], out[rows, n],
                                      dy[rows, n])
    return torch.autograd.grad(loss, list(x.values()))


def ordered(c, statistics):
    """[T1, N1] into the order of the file, 8 copies each: per sequence head-major, unless another is asked for."""
    if c.order == "tnd":
        flat = statistics.ravel()
    elif c.order == "ntd":
        flat = statistics.T.ravel()
    else:
        blocks = [statistics[begin:begin + count].T.ravel() for begin, count in c.q_rows]
        flat = numpy.concatenate(blocks + [statistics[c.t1 - c.q_slack:].ravel()])
    return numpy.repeat(flat, 8).reshape((c.n1, c.t1, 8) if c.order == "ntd" else (c.t1, c.n1, 8))


def poison(values, slack):
    values = values.copy()
    values[len(values) - slack:] = numpy.nan
    return values


def add_mask(golden, c):
    if c.mask_kind == "compressed":
        rows = 3072 if c.mode == 6 else 2048
        golden.add_view("attenMask", numpy.zeros(1), c.mask_dtype, [rows, 2048], [0, 0])
    elif c.mask_kind:
        golden.add_input("attenMask", c.mask[0, 0] if c.mask_kind == "ss" else c.mask, c.mask_dtype)


def make(name, about, **options):
    golden, random, c = Golden("attention", name, about), random_of(name), Case(**options)
    c.make_mask(random)
    inputs, dy = random_inputs(c, random)
    x = {key: torch.from_numpy(array).requires_grad_() for key, array in inputs.items()}
    sees, earlier, upstream = visibility(c), earlier_keys(c, random), torch.from_numpy(dy)
    top, total, out, outs = forward(c, x, sees, earlier)
    exact = exact_gradients(list(x.values()), upstream, outs)
    for want, got in zip(exact, frozen_gradients(c, x, sees, upstream, top, total, out)):
        assert torch.allclose(got, want, rtol=1e-12, atol=1e-13), f"{name}: frozen and exact gradients differ"
    top, total, given = rounded(top, "f32"), rounded(total, "f32"), rounded(out, c.dtype)
    gradients = frozen_gradients(c, x, sees, upstream, top, total, given)

    golden.arguments = {"actualSeqQLen": c.q_ends, "actualSeqKvLen": c.kv_ends, "scaleValue": c.scale,
                        "sparseMode": c.mode, "preTokens": c.pre, "nextTokens": c.nxt, "headNum": c.n1,
                        "inputLayout": "TND", "prefix": c.prefix_argument}
    for key, gradient, output in zip(NAMES, gradients, ("dq", "dqRope", "dk", "dkRope", "dv")):
        if inputs[key].size or "Rope" not in key:
            slack = c.q_slack if key.startswith("query") else c.kv_slack
            golden.add_input(key, poison(inputs[key], slack), c.dtype)
            golden.add_gradient(output, gradient.numpy())
    golden.add_input("dy", poison(dy, c.q_slack), c.dtype)
    golden.add_input("attentionIn", given, c.dtype)
    golden.add_input("softmaxMax", ordered(c, top), "f32")
    golden.add_input("softmaxSum", ordered(c, total), "f32")
    add_mask(golden, c)
    return golden


# --- the list -------------------------------------------------------------------------------------------------------

DTYPES = ("bf16", "f16", "f32")


def modes(dtype, **more):
    """One golden per sparse mode: sequences of unlike lengths, groups of heads, a window where the mode has one."""
    pack = {"q": [3, 7], "kv": [5, 8], "n1": 2, "n2": 1, "d": 8, "dtype": dtype, **more}
    window = {"pre": 1, "nxt": 1}
    yield "0", "mask bytes and a window from the top left", {**pack, "mask": "ss", "pre": 2, "nxt": 1}
    yield "1", "mask bytes alone", {**pack, "mask": "ss", **window}
    yield "2", "left-up causal", {**pack, "mask": "compressed", **window}
    yield "3", "right-down causal; the second has rows that see nothing", {**pack, "mask": "compressed", **window}
    yield "4", "a band from the bottom right", {**pack, "mask": "compressed", "pre": 1, "nxt": 0}
    if not more.get("dr"):
        yield "6", "prefixes: none, some", {**pack, "mask": "compressed", "prefix": [0, 2]}
    yield "7", "right-down causal, the last one a band", {**pack, "mask": "compressed", **window}
    yield "8", "left-up causal, the first one a band", {**pack, "mask": "compressed", **window}


def goldens():
    for dtype in DTYPES:
        for mode, about, options in modes(dtype):
            yield make(f"{dtype}_mode{mode}", about, mode=int(mode), **options)
        yield make(f"{dtype}_no_mask", "without a mask all is visible, whatever the mode says", dtype=dtype, mode=3,
                   q=[2, 5], kv=[4, 6], n1=2, n2=2, d=5)
    for mode, about, options in modes("bf16", dr=8, dv=3):
        yield make(f"rope_mode{mode}", about + "; rope, and a narrower value", mode=int(mode), **options)
    yield from masks()
    yield from heads_and_dims()
    yield from packs()
    yield from windows()
    yield from statistics()


def masks():
    pack = {"q": [2, 5], "kv": [3, 5], "n1": 2, "n2": 1, "d": 4}
    for number, (kind, dtype) in enumerate([("11ss", "f16"), ("b1ss", "f32"), ("bnss", "bf16")]):
        for mode in (0, 1):
            yield make(f"mask_{kind}_mode{mode}", "masks of rank 4", dtype=dtype, mode=mode, mask=kind,
                       mask_dtype="bool" if (number + mode) % 2 else "u8", **pack)
    yield make("mask_larger", "a mask larger than the sequences: its top left corner", dtype="f32", mode=1, mask="ss",
               mask_extra=2, **pack)
    yield make("mask_rope_11ss", "rope with mask bytes of rank 4", dtype="bf16", mask="11ss", dr=8, d=8, q=[3], n1=2,
               n2=2, mask_dtype="bool")


def heads_and_dims():
    causal = {"mode": 3, "mask": "compressed", "q": [3], "kv": [4]}
    yield make("heads_1_1", "one head", dtype="f16", n1=1, n2=1, **causal)
    yield make("heads_3_3", "a key head for each", dtype="f32", n1=3, n2=3, d=3, **causal)
    yield make("heads_4_2", "groups of two", dtype="bf16", n1=4, n2=2, d=4, **causal)
    yield make("heads_6_1", "all heads share one", dtype="f16", n1=6, n2=1, d=4, **causal)
    yield make("dim_1", "one dim", dtype="f32", n1=2, n2=1, d=1, **causal)
    yield make("dim_72_dv_40", "dims between vectors", dtype="f16", n1=1, n2=1, d=72, dv=40, **causal)
    yield make("dim_192_dv_128", "as in training", dtype="bf16", n1=1, n2=1, d=192, dv=128, mode=3, mask="compressed",
               q=[2])
    yield make("rope_128_64", "as in training, split into its rope", dtype="bf16", d=128, dr=64, scale=192**-0.5,
               mode=3, mask="compressed", q=[2])
    yield make("rope_16_16", "a rope as wide as the rest", dtype="bf16", n1=2, n2=1, d=16, dr=16, **causal)
    yield make("tiles", "rows, keys and dims that fill tiles of 16 by 32, and some that do not", dtype="bf16", n1=1,
               n2=1, d=32, dr=0, mode=3, mask="compressed", q=[41], kv=[53])
    yield make("rope_f16_extended", "rope in f16: beyond the documented limits", dtype="f16", n1=2, n2=1, d=8, dr=4,
               **causal)
    yield make("rope_f32_extended", "rope in f32: beyond the documented limits", dtype="f32", n1=2, n2=2, d=6, dr=2,
               **causal)


def packs():
    causal = {"mode": 3, "mask": "compressed", "d": 4}
    yield make("pack_empty_sequences", "no queries, no keys, neither", dtype="f32", q=[2, 2, 4, 4, 5],
               kv=[2, 4, 4, 4, 6], n1=2, **causal, n2=2)
    yield make("pack_zero_tail", "unused entries at the end of both lists", dtype="bf16", q=[2, 5, 0, 0],
               kv=[3, 5, 0, 0], n1=2, n2=1, **causal)
    yield make("pack_zero_tail_keys", "unused entries at the end of one list", dtype="f16", q=[2, 3, 5], kv=[3, 5, 0],
               n1=2, n2=1, **causal)
    yield make("pack_slack", "rows behind the last end, full of NaN", dtype="bf16", q=[2, 4], kv=[2, 5], q_slack=2,
               kv_slack=1, n1=2, n2=1, **causal)
    yield make("pack_slack_no_mask", "the same, all visible", dtype="f32", q=[1, 4], kv=[3, 5], q_slack=1, kv_slack=2,
               n1=2, n2=2, d=4, mode=1)
    yield make("pack_mode7_tail", "the band is the last with queries, not the tail", dtype="f32", mode=7,
               mask="compressed", q=[2, 5, 5, 0], kv=[3, 7, 8, 0], pre=1, nxt=0, d=4)
    yield make("pack_mode8_leading_empty", "the band is the first with queries", dtype="f16", mode=8,
               mask="compressed", q=[0, 2, 5], kv=[2, 5, 8], pre=1, nxt=0, d=4)
    yield make("pack_of_ones", "one query each, as in decoding", dtype="bf16", q=[1, 2, 3], kv=[4, 5, 9], n1=2, n2=1,
               **causal)
    yield make("nothing_visible", "every mask byte hides: all gradients 0", dtype="f16", mode=1, mask="ss", q=[1],
               kv=[3], d=4)


def windows():
    band = {"mode": 4, "mask": "compressed", "d": 4}
    yield make("window_mode0_ahead", "only columns ahead of the row", dtype="f32", mode=0, mask="ss", q=[6], pre=-1,
               nxt=3, d=4)
    yield make("window_mode0_behind", "only columns behind the row", dtype="bf16", mode=0, mask="ss", q=[6], pre=4,
               nxt=-1, d=4)
    yield make("window_mode0_endless", "the largest and smallest tokens", dtype="f16", mode=0, mask="ss", q=[4],
               pre=2**63 - 1, nxt=2**63 - 1, d=4)
    yield make("window_mode4_ahead", "a band wholly beyond the diagonal", dtype="f16", q=[6], kv=[7], pre=-1, nxt=2,
               **band)
    yield make("window_mode4_behind", "a band wholly before the diagonal", dtype="f32", q=[6], kv=[5], pre=3, nxt=-1,
               **band)
    yield make("window_mode4_wide", "a band wider than the sequence", dtype="bf16", q=[4], kv=[6], pre=99, nxt=99,
               **band)
    yield make("prefix_kinds", "0, below the diagonal, all keys, more than there are, negative", dtype="f32", mode=6,
               mask="compressed", q=[3, 5, 7, 9, 11], kv=[2, 6, 8, 10, 12], prefix=[0, 1, 2, 9, -4], d=2)
    yield make("prefix_tail", "prefixes of the sequences alone, without the unused entries", dtype="f16", mode=6,
               mask="compressed", q=[4, 7, 0], kv=[2, 4, 0], prefix=[1, 2], d=4)
    yield make("prefix_ignored", "a prefix list where the mode has none", dtype="bf16", mode=2, mask="compressed",
               q=[4], prefix=None, prefix_argument=[3], d=4)


def statistics():
    causal = {"mode": 3, "mask": "compressed", "d": 6}
    for order in ("tnd", "ntd"):
        yield make(f"statistics_{order}", "another order of the rows, found by the data", dtype="f32", n1=3, n2=1,
                   order=order, q=[4, 9], kv=[6, 12], **causal)
    for dtype in DTYPES:
        yield make(f"ring_{dtype}", "statistics and output of more keys than the call has", dtype=dtype, n1=2, n2=1,
                   q=[2, 5], kv=[3, 6], earlier=4, **causal)
    yield make("ring_no_mask", "the same, all visible", dtype="f32", n1=2, n2=2, q=[3], kv=[4], earlier=3, mode=1,
               d=4)
    yield make("scale_zero", "scale 0: equal probabilities, no gradient of query and key", dtype="f32", n1=2, n2=1,
               q=[4], scale=0.0, **causal)
    yield make("scale_negative", "a negative scale", dtype="f16", n1=2, n2=1, q=[4], scale=-0.4, **causal)
    yield make("scale_large", "scores so far apart that most probabilities are 0 in float", dtype="bf16", n1=2, n2=1,
               q=[6], scale=40.0, **causal)
    yield make("scores_equal", "query 0: all scores of a row are equal", dtype="bf16", n1=2, n2=1, q=[5], flat=True,
               **causal)
