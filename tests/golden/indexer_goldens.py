"""Goldens of aclnnLightningIndexerGrad: autograd through the scores of the selected keys.

Forward: the score of key t for a query row is the sum over heads of weight * relu(query . key). Slot j of a row selects
the key with its index, counted from the sequence's first; the operator takes the gradient dy of each selected score.
A slot is live when its index is a key of the sequence and, in sparse mode 3, when it is among the first
keys - queries + s + 1 slots of the sequence's row s: as many as the row can see when both sequences end together.
"""
import numpy
import torch

from golden_file import Golden, normal, random_of


def scores(query, key, weights, indices):
    """One row: query [N, D], key [keys, D], weights [N], indices [slots] -> [slots]."""
    products = (query[:, None, :] * key[indices][None, :, :]).sum(-1)
    return (weights[:, None] * torch.relu(products)).sum(0)


def live_slots(indices, mode, s, queries, keys):
    slots = len(indices)
    limit = slots if mode == 0 else min(max(keys - queries + s + 1, 0), slots)
    return [j for j in range(limit) if 0 <= indices[j] < keys]


def forward_indices(random, mode, s, queries, keys, slots):
    """As the forward operator leaves them: different keys that the row can see, then -1."""
    visible = keys if mode == 0 else min(max(keys - queries + s + 1, 0), keys)
    chosen = random.permutation(visible)[:slots]
    return numpy.concatenate([chosen, numpy.full(slots - len(chosen), -1)])


def wild_indices(random, keys, slots):
    """Repeated keys, keys beyond the causal boundary, and numbers that are no key."""
    indices = random.randint(0, max(keys, 1), slots)
    for wild in (-1, keys, keys + 7, -2**31, 2**31 - 1):
        indices[random.randint(slots)] = wild
    return indices


class Pack:
    """Where the sequences lie in flat rows and keys; padding belongs to none."""

    def __init__(self, layout, q, kv, q_slack, kv_slack):
        self.q, self.kv = q, kv
        if layout == "TND":
            self.rows, self.keys = sum(q) + q_slack, sum(kv) + kv_slack
            self.row_begins = [sum(q[:b]) for b in range(len(q))]
            self.key_begins = [sum(kv[:b]) for b in range(len(q))]
        else:
            self.s1, self.s2 = max(q) + q_slack, max(kv) + kv_slack
            self.rows, self.keys = len(q) * self.s1, len(q) * self.s2
            self.row_begins = [b * self.s1 for b in range(len(q))]
            self.key_begins = [b * self.s2 for b in range(len(q))]


def poison(values, is_used):
    """NaN where the operator must not look."""
    return numpy.where(is_used.reshape(is_used.shape + (1,) * (values.ndim - is_used.ndim)), values, numpy.nan)


def make(name, about, dtype="bf16", layout="BSND", mode=3, q=(3, ), kv=(6, ), q_slack=0, kv_slack=0, heads=2,
         dim=128, slots=5, counts=None, wild=False, same=False, rank4=False):
    """counts: BSND, the length tensors are given. same: every slot selects one key. rank4: dy and indices with the dim
    of the key heads."""
    golden, random, pack = Golden("indexer", name, about), random_of(name), Pack(layout, q, kv, q_slack, kv_slack)
    query, key = normal(random, (pack.rows, heads, dim)), normal(random, (pack.keys, dim))
    weights, dy = normal(random, (pack.rows, heads)), normal(random, (pack.rows, slots))
    indices = numpy.zeros((pack.rows, slots), dtype=numpy.int64)
    row_used, key_used = numpy.zeros(pack.rows, bool), numpy.zeros(pack.keys, bool)
    slot_used = numpy.zeros((pack.rows, slots), bool)

    leaves = [torch.from_numpy(array).requires_grad_() for array in (query, key, weights)]
    loss = sum(0 * leaf.sum() for leaf in leaves)  # a leaf that nothing uses has gradient 0
    for b, (queries, keys) in enumerate(zip(q, kv)):
        first = pack.key_begins[b]
        own_keys = leaves[1][first:first + keys]
        key_used[first:first + keys] = True
        for s in range(queries):
            r = pack.row_begins[b] + s
            row_used[r] = True
            indices[r] = forward_indices(random, mode, s, queries, keys, slots)
            if wild:
                indices[r] = wild_indices(random, keys, slots)
            if same:
                indices[r] = 2
            live = live_slots(indices[r], mode, s, queries, keys)
            slot_used[r, live] = True
            selected = scores(leaves[0][r], own_keys, leaves[2][r], indices[r, live])
            loss = loss + (selected * torch.from_numpy(dy[r, live])).sum()
    dq, dk, dweights = [g.numpy() for g in torch.autograd.grad(loss, leaves)]

    rows = (pack.rows, ) if layout == "TND" else (len(q), pack.s1)
    all_keys = (pack.keys, ) if layout == "TND" else (len(q), pack.s2)
    by_slot = rows + ((1, slots) if rank4 else (slots, ))
    golden.arguments = {"inputLayout": layout, "sparseMode": mode}
    golden.add_input("query", poison(query, row_used).reshape(rows + (heads, dim)), dtype)
    golden.add_input("key", poison(key, key_used).reshape(all_keys + (1, dim)), dtype)
    golden.add_input("weights", poison(weights, row_used).reshape(rows + (heads, )), dtype)
    golden.add_input("dy", poison(dy, slot_used).reshape(by_slot), dtype)
    golden.add_input("sparseIndices", indices.reshape(by_slot), "i32")
    if layout == "TND" or counts:
        lengths = [numpy.cumsum(q), numpy.cumsum(kv)] if layout == "TND" else [q, kv]
        golden.add_input("actualSeqQLen", numpy.array(lengths[0]), "i32")
        golden.add_input("actualSeqKvLen", numpy.array(lengths[1]), "i32")
    golden.add_gradient("dq", dq.reshape(rows + (heads, dim)))
    golden.add_gradient("dk", dk.reshape(all_keys + (1, dim)))
    golden.add_gradient("dweights", dweights.reshape(rows + (heads, )))
    return golden


def goldens():
    for dtype in ("bf16", "f16"):
        for mode in (0, 3):
            yield make(f"bsnd_{dtype}_mode{mode}", "two sequences, as the forward leaves them", dtype, "BSND", mode,
                       (2, 2), (4, 4), heads=2, slots=3)
            yield make(f"tnd_{dtype}_mode{mode}", "a pack with empty sequences and padding", dtype, "TND", mode,
                       (0, 2, 0, 3), (3, 4, 0, 5), q_slack=1, kv_slack=2, heads=1, slots=4)
            yield make(f"tnd_{dtype}_mode{mode}_wild", "repeated, foreign and impossible indices", dtype, "TND", mode,
                       (2, 2), (5, 3), heads=2, slots=9, wild=True)
    for dtype in ("bf16", "f16", "f32"):
        for layout in ("BSND", "TND"):
            for mode in (0, 3):
                yield make(f"{layout.lower()}_{dtype}_mode{mode}_extended", "small dims: beyond the documented limits",
                           dtype, layout, mode, (3, 3), (7, 7), heads=3, dim=12, slots=6)
    yield make("counts", "BSND with counts: rows and keys behind them are padding", "bf16", "BSND", 3, (3, 1, 2),
               (4, 2, 3), kv_slack=1, heads=1, slots=3, counts=True)
    yield make("counts_zero", "a sequence without queries, one without keys", "f16", "BSND", 0, (0, 2), (3, 0),
               heads=1, slots=2, counts=True)
    yield make("more_queries_than_keys", "mode 3: the first rows see nothing", "bf16", "BSND", 3, (5, ), (3, ),
               heads=1, slots=3)
    yield make("few_keys", "mode 0: fewer keys than slots, the rest is -1", "f16", "BSND", 0, (2, ), (3, ), heads=1,
               slots=11)
    yield make("same_key", "every slot of every row selects one key", "bf16", "BSND", 0, (4, ), (4, ), heads=1,
               slots=7, same=True)
    yield make("slot_1", "one slot", "f16", "TND", 0, (3, ), (5, ), heads=1, slots=1)
    yield make("rank4", "dy and sparseIndices with the key-head dim", "bf16", "BSND", 3, (3, ), (5, ), heads=1,
               slots=4, rank4=True)
    yield make("rank4_tnd", "the same in a pack", "f16", "TND", 3, (3, ), (5, ), heads=1, slots=4, rank4=True)
    yield make("one_query", "decoding: one row", "bf16", "BSND", 3, (1, ), (8, ), heads=3, slots=6)
    yield make("one_key", "one key", "f16", "BSND", 3, (1, ), (1, ), heads=3, slots=2)
    yield make("heads_64", "as many heads as are documented", "bf16", "TND", 3, (1, ), (4, ), heads=64, slots=4)
    yield make("tiles", "heads, slots and dims that fill tiles of 16 by 32, and some slots that do not", "bf16", "TND",
               0, (1, ), (37, ), heads=32, slots=37)
    yield make("heads_70_extended", "more than documented, small", "f16", "TND", 3, (2, ), (5, ), heads=70, dim=5,
               slots=5)
    yield make("slots_300", "many slots", "bf16", "TND", 0, (1, ), (9, ), heads=1, slots=300, wild=True)
    yield make("nothing_live", "a pack without keys: all gradients 0", "f16", "TND", 0, (2, ), (0, ), kv_slack=2,
               heads=1, slots=3)
