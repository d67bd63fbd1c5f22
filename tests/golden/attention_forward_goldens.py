"""Goldens of aclnnFlashAttentionVarLenScoreV5 (without a sink: V3): softmax attention by PyTorch in double, a sequence and
a head at a time. Which columns a row sees, and the order of the statistics, are those of attention_goldens.

A sink is one more score of value 0: a column is joined to the scores, and a row of zeros to the values.
"""
import numpy
import torch

from attention_goldens import Case, DTYPES, add_mask, each_head, modes, ordered, poison, random_inputs, scores_of, visibility
from golden_file import Golden, normal, random_of

LARGEST_FLOAT = float(numpy.finfo(numpy.float32).max)
NAMES = {"query": "query", "queryRope": "queryRope", "keyIn": "key", "keyInRope": "keyRope", "value": "value"}


def forward_row_block(scores, value, sees, sink):
    """Maximum, sum and output of the rows of one head; NaN where nothing is seen."""
    if sink is not None:
        scores = torch.cat([scores, torch.full((len(scores), 1), sink, dtype=torch.float64)], 1)
        sees = torch.cat([sees, torch.ones((len(sees), 1), dtype=torch.bool)], 1)
        value = torch.cat([value, torch.zeros((1, value.shape[1]), dtype=torch.float64)])
    hidden = torch.where(sees, scores, torch.full_like(scores, -float("inf")))
    top = hidden.max(-1).values
    total = torch.exp(torch.logsumexp(hidden, -1) - top)
    return top, total, (torch.softmax(hidden, -1)[:, :, None] * value[None, :, :]).sum(1)


def forward(c, x, sees, sinks):
    """Statistics [T1, N1] and output [T1, N1, Dv]: 0 for rows of no sequence or of one without keys."""
    top, total, out = numpy.zeros((c.t1, c.n1)), numpy.zeros((c.t1, c.n1)), numpy.zeros((c.t1, c.n1, c.dv))
    for index, b, n, rows in each_head(c):
        begin, count = c.kv_rows[b]
        key, key_rope, value = [x[name][begin:begin + count, n // (c.n1 // c.n2)] for name in list(NAMES)[2:]]
        if sees[index].numel() == 0:
            continue
        tops, totals, output = forward_row_block(scores_of(c, x, b, n, key, key_rope), value, sees[index],
                                                 None if sinks is None else sinks[n])
        some = (sees[index].any(-1) | torch.tensor(sinks is not None)).numpy()
        top[rows, n] = numpy.where(some, tops.numpy(), -LARGEST_FLOAT)
        total[rows, n] = numpy.where(some, totals.numpy(), LARGEST_FLOAT)
        out[rows, n] = numpy.where(some[:, None], output.numpy(), 0)
    return top, total, out


def make(name, about, has_sink=False, **options):
    golden, random, c = Golden("attention_forward", name, about), random_of("forward " + name), Case(**options)
    c.make_mask(random)
    inputs, _ = random_inputs(c, random)
    sinks = normal(random, (c.n1, )) if has_sink else None
    x = {key: torch.from_numpy(array) for key, array in inputs.items()}
    top, total, out = forward(c, x, visibility(c), sinks)
    golden.arguments = {"actualSeqQLen": c.q_ends, "actualSeqKvLen": c.kv_ends, "scaleValue": c.scale,
                        "sparseMode": c.mode, "preTokens": c.pre, "nextTokens": c.nxt, "headNum": c.n1,
                        "inputLayout": "TND", "prefix": c.prefix_argument}
    for key, argument in NAMES.items():
        if inputs[key].size or "Rope" not in key:
            slack = c.q_slack if key.startswith("query") else c.kv_slack
            golden.add_input(argument, poison(inputs[key], slack), c.dtype)
    if has_sink:
        golden.add_input("sink", sinks, "f32")
    add_mask(golden, c)
    golden.add_gradient("softmaxMax", ordered(c, top))
    golden.add_gradient("softmaxSum", ordered(c, total))
    golden.add_gradient("attentionOut", out)
    return golden


def goldens():
    for dtype in DTYPES:
        for mode, about, options in modes(dtype):
            yield make(f"{dtype}_mode{mode}", about, mode=int(mode), **options)
        yield make(f"{dtype}_no_mask", "without a mask all is visible", dtype=dtype, mode=3, q=[2, 5], kv=[4, 6], n1=2,
                   n2=2, d=5)
    for mode, about, options in modes("bf16", dr=8, dv=3):
        yield make(f"rope_mode{mode}", about + "; rope, and a narrower value", mode=int(mode), **options)
    causal = {"mode": 3, "mask": "compressed", "n1": 2, "n2": 1, "d": 4}
    yield make("sink", "a sink for each head", True, dtype="f32", q=[2, 5], kv=[3, 5], **causal)
    yield make("sink_bf16", "the same, with rows that see nothing else", True, dtype="bf16", q=[4, 5], kv=[2, 5], **causal)
    yield make("pack_empty_sequences", "no queries, no keys, neither", dtype="f32", q=[2, 2, 4, 4, 5],
               kv=[2, 4, 4, 4, 6], **causal)
    yield make("pack_slack", "rows behind the last end, full of NaN", dtype="bf16", q=[2, 4], kv=[2, 5], q_slack=2,
               kv_slack=1, **causal)
    yield make("nothing_visible", "every mask byte hides", dtype="f16", mode=1, mask="ss", q=[1], kv=[3], d=4)
    yield make("tiles", "rows, keys and dims that fill tiles of 16 by 32, and some that do not", dtype="bf16", n1=1,
               n2=1, d=32, mode=3, mask="compressed", q=[41], kv=[53])
    yield make("rope_128_64", "as in training, split into its rope", dtype="bf16", d=128, dr=64, scale=192**-0.5,
               mode=3, mask="compressed", q=[2])
    yield make("rope_f32_extended", "rope in f32: beyond the documented limits", dtype="f32", n1=2, n2=2, d=6, dr=2,
               mode=3, mask="compressed", q=[3], kv=[4])
    yield make("scale_large", "scores so far apart that most of exp(S - max) is 0 in float", dtype="bf16", q=[6],
               scale=40.0, **causal)
    yield make("scale_negative", "a negative scale", dtype="f16", q=[4], scale=-0.4, **causal)
