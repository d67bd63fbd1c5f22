"""Goldens of permute, its gradient, unpermute, and the gradient of unpermute without a window.

Permute: the slots sorted by expert, stably; positions [begin, end) of them, cut where numOutTokens ends the order, become rows.
Its gradient is autograd's. Unpermute and its gradient: moe_goldens.py.
"""
import numpy
import torch

import moe_goldens
from golden_file import Golden, normal, random_of


def permute(tokens, probs, experts, window, cut):
    """Rows, their probs, the position of every slot."""
    topk = experts.shape[1]
    order = torch.sort(torch.from_numpy(experts.reshape(-1)), stable=True).indices
    positions = torch.empty_like(order)
    positions[order] = torch.arange(len(order))
    slots = order[:cut][window[0]:window[1]]
    return tokens[slots // topk], probs.reshape(-1)[slots], positions.numpy()


def slice_end(number, slots):
    """numOutTokens as the end of a slice; 0: all."""
    return slots if number == 0 else number if number > 0 else max(slots + number, 0)


def make_permute(name, about, token="bf16", probs="f32", tokens=5, topk=3, hidden=8, range=None, number=0, index="i32",
                 experts=4, lowest=0, rows=None, is_grad=False):
    golden, random = Golden("moe_permute_grad" if is_grad else "moe_permute", name, about), random_of(name)
    window = tuple(range or (0, tokens * topk))
    chosen = random.randint(0, experts, (tokens, topk)).astype(numpy.int64) + lowest
    x, weights = normal(random, (tokens, hidden)), normal(random, (tokens, topk))
    leaves = [torch.from_numpy(x).requires_grad_(), torch.from_numpy(weights).requires_grad_()]
    out, out_probs, positions = permute(*leaves, chosen, window, slice_end(number, tokens * topk))
    golden.arguments = {"paddedMode": False, "range": range}
    if is_grad:
        return finish_grad(golden, random, leaves, (out, out_probs), positions, (token, probs, topk))
    golden.arguments["numOutTokens"] = number
    golden.add_input("tokens", x, token)
    golden.add_input("indices", chosen, index)
    spare = numpy.zeros(((rows or len(out)) - len(out), hidden))  # rows that no slot has
    golden.add_gradient("permuteTokens", numpy.vstack([out.detach().numpy(), spare]))
    golden.add_gradient("sortedIndices", positions.astype(float))
    if probs:
        golden.add_input("probs", weights, probs)
        golden.add_gradient("permuteProbs", numpy.concatenate([out_probs.detach().numpy(), spare[:, 0]]))
    return golden


def finish_grad(golden, random, leaves, outputs, positions, types):
    token, probs, topk = types
    grads = [normal(random, tuple(o.shape)) for o in outputs]
    total = sum((o * torch.from_numpy(g)).sum() for o, g in zip(outputs, grads))
    x_grad, probs_grad = torch.autograd.grad(total + 0 * leaves[0].sum() + 0 * leaves[1].sum(), leaves)
    golden.arguments["numTopk"] = topk
    golden.add_input("permutedTokensOutputGrad", grads[0], token)
    golden.add_input("sortedIndices", positions, "i32")
    golden.add_gradient("tokenGrad", x_grad.numpy())
    if probs:
        golden.add_input("permutedProbsOutputGrad", grads[1], probs)
        golden.add_gradient("probsGrad", probs_grad.numpy())
    return golden


def make_unpermute(name, about, token="bf16", probs="f32", tokens=5, topk=3, hidden=8, range=None, rows=None, wild=False,
                   is_grad=False):
    golden, random = Golden("moe_unpermute_grad" if is_grad else "moe_unpermute", name, about), random_of(name)
    slots = tokens * topk
    window = moe_goldens.window_of(range, slots)
    rows = window[1] - window[0] if rows is None else rows
    positions = random.permutation(slots)
    if wild:
        positions[random.permutation(slots)[:6]] = [-1, -3, slots, slots + 5, -2**31, 2**31 - 1]
    permuted = normal(random, (rows, hidden))
    weights = normal(random, (tokens, topk)) if probs else numpy.ones((tokens, topk))
    golden.arguments = {"paddedMode": False}
    golden.add_input("permutedTokens", permuted, token)
    golden.add_input("sortedIndices", positions, "i32")
    if probs:
        golden.add_input("probs", weights, probs)
    if is_grad:
        grad = normal(random, (tokens, hidden))
        permuted_grad, probs_grad = moe_goldens.gradients(permuted, weights, positions, window, grad)
        golden.add_input("unpermutedTokensGrad", grad, token)
        golden.add_gradient("permutedTokensGrad", permuted_grad)
        if probs:
            golden.add_gradient("probsGrad", probs_grad)
        return golden
    golden.arguments.update({"range": range, "numTopk": topk})
    out = moe_goldens.unpermute(torch.from_numpy(permuted), torch.from_numpy(weights), positions, window, tokens, topk)
    golden.add_gradient("out", out.numpy())
    return golden


PAIRS = [(token, probs) for token in moe_goldens.DTYPES for probs in moe_goldens.DTYPES]
SIZES = [(5, 3, 8), (4, 2, 19), (7, 1, 16), (3, 8, 7), (6, 2, 33), (2, 4, 64), (9, 2, 1), (4, 3, 40), (5, 2, 23)]
WINDOWS = [None, [4, 8], [0, 3], [15, 24], None, [2, 7], [1, 18], None, [3, 9]]


def permute_goldens():
    for is_grad in False, True:
        kind = "grad_" if is_grad else ""
        for (token, probs), sizes, window in zip(PAIRS, SIZES, WINDOWS):
            yield make_permute(f"{kind}{token}_probs_{probs}", "each pair of types", token, probs, *sizes, window,
                               is_grad=is_grad)
        yield make_permute(f"{kind}without_probs", "tokens alone", "bf16", None, is_grad=is_grad)
        yield make_permute(f"{kind}window_empty", "a rank without tokens", range=[5, 5], is_grad=is_grad)
        yield make_permute(f"{kind}cut", "numOutTokens: the first", "f32", "f32", number=7, is_grad=is_grad)
        yield make_permute(f"{kind}cut_from_end", "numOutTokens below 0: all but the last", "f16", number=-4,
                           is_grad=is_grad)
        yield make_permute(f"{kind}cut_in_window", "a cut within a window", range=[3, 12], number=9, is_grad=is_grad)
    yield make_permute("experts_i64", "experts of 64 bits, far apart", index="i64", experts=2**60, lowest=-2**59)
    yield make_permute("experts_negative", "negative experts come first", experts=5, lowest=-3)
    yield make_permute("experts_one", "all the same: nothing moves", experts=1)
    yield make_permute("rows_spare", "rows behind the window are 0", range=[4, 10], rows=9)


def unpermute_goldens():
    for is_grad in False, True:
        kind = "grad_" if is_grad else ""
        for (token, probs), sizes, window in zip(PAIRS, SIZES, WINDOWS):
            yield make_unpermute(f"{kind}{token}_probs_{probs}", "each pair of types", token, probs, *sizes,
                                 None if is_grad else window, is_grad=is_grad)
        yield make_unpermute(f"{kind}without_probs", "weights of 1", "f32", None, is_grad=is_grad)
        yield make_unpermute(f"{kind}wild", "positions below 0, at and beyond N, the extremes of int32", wild=True,
                             is_grad=is_grad)
        yield make_unpermute(f"{kind}truncated", "rows end early: later positions were dropped", rows=9,
                             is_grad=is_grad)
    yield make_unpermute("window_empty", "a rank without tokens: all is 0", range=[5, 5])
    yield make_unpermute("window_negative", "both ends counted from N", "f32", "bf16", range=[-9, -2])
    yield make_unpermute("topk_64", "many experts", "bf16", "bf16", 2, 64, 3, [30, 90])


def goldens():
    yield from permute_goldens()
    yield from unpermute_goldens()
