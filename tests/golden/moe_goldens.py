"""Goldens of aclnnMoeTokenUnpermuteWithEpGrad: autograd through the forward operator.

Forward: token t is the sum over its K slots of the expert's output times the slot's weight. sortedIndices tells the
slot's position in the order sorted by expert; this rank has the positions [begin, end), the first `rows` of them. A
slot elsewhere adds nothing.
"""
import numpy
import torch

from golden_file import Golden, normal, random_of


def unpermute(permuted, probs, positions, window, tokens, topk):
    begin, end = window
    out = []
    for t in range(tokens):
        total = torch.zeros(permuted.shape[1], dtype=torch.float64)
        for k in range(topk):
            row = int(positions[t * topk + k]) - begin
            if 0 <= row < end - begin and row < len(permuted):
                total = total + permuted[row] * probs[t, k]
        out.append(total)
    return torch.stack(out)


def window_of(range_argument, slots):
    """Absent: all. Negative ends count from the end; then both are cut to the positions there are."""
    if not range_argument:
        return 0, slots
    return tuple(min(max(end + slots if end < 0 else end, 0), slots) for end in range_argument)


def gradients(permuted, probs, positions, window, grad):
    leaves = [torch.from_numpy(permuted).requires_grad_(), torch.from_numpy(probs).requires_grad_()]
    out = unpermute(*leaves, positions, window, *probs.shape)
    out = out + 0 * leaves[0].sum() + 0 * leaves[1].sum()  # a leaf that no slot uses has gradient 0
    return [g.numpy() for g in torch.autograd.grad(out, leaves, torch.from_numpy(grad))]


def make(name, about, token="bf16", probs="f32", tokens=5, topk=3, hidden=8, range=None, rows=None, out_rows=None,
         has_permuted=True, topk_argument=None, wild=False, deviation=1):
    """rows, out_rows: of permutedTokens and permutedTokensGradOut; the window's unless given."""
    golden, random, slots = Golden("moe", name, about), random_of(name), tokens * topk
    window = window_of(range, slots)
    rows = window[1] - window[0] if rows is None else rows
    out_rows = rows if out_rows is None else out_rows
    positions = random.permutation(slots)
    if wild:
        positions[random.permutation(slots)[:6]] = [-1, -3, slots, slots + 5, -2**31, 2**31 - 1]
    permuted, grad = normal(random, (rows, hidden), deviation), normal(random, (tokens, hidden), deviation)
    weights = normal(random, (tokens, topk), deviation) if probs else numpy.ones((tokens, topk))
    permuted_grad, probs_grad = gradients(permuted, weights, positions, window, grad)

    golden.arguments = {"paddedMode": False, "range": range, "topkNum": topk_argument or topk}
    golden.add_input("unpermutedTokensGrad", grad, token)
    golden.add_input("sortedIndices", positions, "i32")
    if has_permuted:
        golden.add_input("permutedTokens", permuted, token)
    zeros = numpy.zeros((out_rows, hidden))  # rows that no slot has
    golden.add_gradient("permutedTokensGrad", numpy.vstack([permuted_grad, zeros])[:out_rows])
    if probs:
        golden.add_input("probs", weights, probs)
        golden.add_gradient("probsGrad", probs_grad)
    return golden


DTYPES = ["bf16", "f16", "f32"]


def goldens():
    sizes = [(5, 3, 8), (4, 2, 19), (7, 1, 16), (3, 8, 7), (6, 2, 33), (2, 4, 64), (9, 2, 1), (4, 3, 40), (5, 2, 23)]
    windows = [None, [4, 11], [0, 3], [15, 24], None, [2, 7], [1, 18], None, [3, 9]]
    pairs = [(token, probs) for token in DTYPES for probs in DTYPES]
    for (token, probs), (tokens, topk, hidden), window in zip(pairs, sizes, windows):
        yield make(f"{token}_probs_{probs}", "each pair of types", token, probs, tokens, topk, hidden, window)
    for token in DTYPES:
        yield make(f"{token}_without_probs", "weights of 1; permutedTokens absent too", token, None, 6, 3, 9,
                   [2, 13], has_permuted=False)
        yield make(f"{token}_without_probs_topk_1", "a mere permutation", token, None, 9, 1, 12)
        yield make(f"{token}_window_empty", "a rank without tokens: no rows", token, "f32", range=[5, 5])
        yield make(f"{token}_wild", "positions below 0, at and beyond N, the extremes of int32", token, token,
                   range=[2, 13], wild=True)
    yield make("without_probs_with_permuted", "permutedTokens given, though nothing needs it", "bf16", None)
    yield make("without_probs_wild", "wild positions, weights of 1", "f32", None, wild=True)
    yield make("window_all", "the window [0, N) spelled out", range=[0, 15])
    yield make("window_at_end", "the last positions", "f16", "bf16", range=[11, 15])
    yield make("window_one_row", "a single position", "f32", "f32", range=[7, 8])
    yield make("window_negative", "both ends counted from N", "f32", "bf16", range=[-9, -2])
    yield make("window_minus_one", "[-1, -1]: empty, as on the device", range=[-1, -1])
    yield make("window_beyond_end", "an end behind N is cut", "f16", "f32", range=[9, 99])
    yield make("window_below_start", "a start below -N is cut to 0", "f16", "f16", range=[-99, 6])
    yield make("window_out_rows_all", "a window, outputs of N rows: the rest is 0", range=[4, 10], out_rows=15)
    yield make("window_rows_spare", "more rows of permutedTokens than the window has", range=[4, 10], rows=9)
    yield make("truncated", "permutedTokens ends early: later positions were dropped", range=None, rows=9)
    yield make("truncated_window", "the same behind a window's start", "f32", "f32", range=[3, 13], rows=6)
    yield make("topk_argument_ignored", "topkNum is not looked at where probs says it", topk_argument=1)
    yield make("topk_1", "one expert per token, with a weight", "f32", "f32", 8, 1, 10)
    yield make("topk_64", "many experts", "bf16", "bf16", 2, 64, 3, [30, 90])
    yield make("topk_512", "as many experts as are documented", "f16", "f32", 1, 512, 1, [100, 350])
    yield make("topk_600_extended", "more than documented", "f32", "f32", 1, 600, 1, [0, 50])
    yield make("hidden_100", "several vectors and a tail", "bf16", "f32", 2, 2, 100)
    yield make("f16_overflow", "products beyond the type: inf", "f16", "f32", deviation=256)
    yield make("f16_subnormal", "products below the type's normal numbers", "f16", "f16", deviation=2**-10)
