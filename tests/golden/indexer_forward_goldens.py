"""Goldens of aclnnLightningIndexer: scores, and the keys that a stable sort puts first.

Values are small whole numbers, so that sums are exact in float as well: there is one right result, and many keys have equal
scores, of which the lower key comes first.
"""
import numpy
import torch

from golden_file import Golden, random_of
from indexer_goldens import Pack, poison


def whole(random, shape, largest=3):
    return numpy.clip(numpy.rint(random.standard_normal(shape) * largest / 2), -largest, largest)


def best(query, key, weights, limit, slots):
    """One row: query [N, D], key [keys, D], weights [N] -> keys and scores [slots]."""
    products = (query[:, None, :] * key[None, :limit, :]).sum(-1)
    scores = (weights[:, None] * torch.relu(products)).sum(0)
    values, keys = torch.sort(scores, descending=True, stable=True)
    missing = max(slots - limit, 0)
    return (numpy.concatenate([keys.numpy()[:slots], numpy.full(missing, -1)]),
            numpy.concatenate([values.numpy()[:slots], numpy.full(missing, -numpy.inf)]))


def paged(random, key, pack, size):
    """The keys of every sequence in blocks, in random order, with NaN in what no sequence has, and the table."""
    width = max((keys + size - 1) // size for keys in pack.kv)
    blocks = len(pack.kv) * width + 1
    table = random.permutation(blocks)[:len(pack.kv) * width].reshape(len(pack.kv), width)
    memory = numpy.full((blocks, size, 1, key.shape[-1]), numpy.nan)
    for b, keys in enumerate(pack.kv):
        for t in range(keys):
            memory[table[b, t // size], t % size, 0] = key[pack.key_begins[b] + t]
    return memory, table


def make(name, about, dtype="bf16", layout="BSND", mode=3, q=(3, ), kv=(6, ), q_slack=0, kv_slack=0, heads=2,
         dim=128, slots=5, counts=None, page=0, weights_dtype=None, has_values=True):
    """counts: BSND, the length tensors are given. page: keys lie in blocks of so many."""
    golden, random = Golden("indexer_forward", name, about), random_of("forward " + name)
    pack = Pack(layout, q, kv, q_slack, kv_slack)
    query, key = whole(random, (pack.rows, heads, dim)), whole(random, (pack.keys, dim))
    weights = whole(random, (pack.rows, heads), 4)
    indices = numpy.full((pack.rows, slots), -1, dtype=numpy.int64)
    values = numpy.full((pack.rows, slots), -numpy.inf)
    row_used, key_used = numpy.zeros(pack.rows, bool), numpy.zeros(pack.keys, bool)
    for b, (queries, keys) in enumerate(zip(q, kv)):
        first = pack.key_begins[b]
        key_used[first:first + keys] = True
        for s in range(queries):
            r = pack.row_begins[b] + s
            row_used[r] = True
            limit = keys if mode == 0 else max(keys - queries + s + 1, 0)
            indices[r], values[r] = best(*[torch.from_numpy(array) for array in
                                           (query[r], key[first:first + keys], weights[r])], limit, slots)

    rows = (pack.rows, ) if layout == "TND" else (len(q), pack.s1)
    all_keys = (pack.keys, ) if layout == "TND" else (len(q), pack.s2)
    key_layout = "PA_BSND" if page else layout
    golden.arguments = {"layoutQuery": layout, "layoutKey": key_layout, "sparseCount": slots, "sparseMode": mode,
                        "returnValues": has_values}
    golden.add_input("query", poison(query, row_used).reshape(rows + (heads, dim)), dtype)
    golden.add_input("weights", poison(weights, row_used).reshape(rows + (heads, )), weights_dtype or dtype)
    if page:
        memory, table = paged(random, key, pack, page)
        golden.add_input("key", memory, dtype)
        golden.add_input("blockTable", table, "i32")
    else:
        golden.add_input("key", poison(key, key_used).reshape(all_keys + (1, dim)), dtype)
    if layout == "TND" or counts:
        golden.add_input("actualSeqLengthsQuery", numpy.cumsum(q) if layout == "TND" else numpy.array(q), "i32")
    if layout == "TND" or counts or page:
        golden.add_input("actualSeqLengthsKey", numpy.cumsum(kv) if key_layout == "TND" else numpy.array(kv), "i32")
    golden.add_result("sparseIndices", indices.reshape(rows + (1, slots)))
    if has_values:
        golden.add_result("sparseValues", values.reshape(rows + (1, slots)))
    return golden


def goldens():
    for dtype in ("bf16", "f16"):
        for mode in (0, 3):
            yield make(f"bsnd_{dtype}_mode{mode}", "two sequences", dtype, "BSND", mode, (2, 2), (9, 9), slots=4)
            yield make(f"tnd_{dtype}_mode{mode}", "a pack with empty sequences and padding", dtype, "TND", mode,
                       (0, 2, 0, 3), (3, 4, 0, 19), q_slack=1, kv_slack=2, heads=1, slots=6)
            yield make(f"pages_{dtype}_mode{mode}", "keys in blocks of 16", dtype, "TND", mode, (2, 3), (20, 16),
                       q_slack=1, slots=7, page=16, has_values=False)
    for layout in ("BSND", "TND"):
        for mode in (0, 3):
            yield make(f"{layout.lower()}_f32_mode{mode}_extended", "small dims: beyond the documented limits", "f32",
                       layout, mode, (3, 3), (17, 17), heads=3, dim=12, slots=6)
    yield make("pages_values_extended", "values, and a block size, beyond the documented limits", "f16", "BSND", 3,
               (2, 1), (9, 5), counts=True, dim=5, slots=12, page=3)
    yield make("counts", "BSND with counts: rows and keys behind them are padding", "bf16", "BSND", 3, (3, 1, 2),
               (4, 2, 3), kv_slack=1, heads=1, slots=3, counts=True)
    yield make("more_queries_than_keys", "mode 3: the first rows see nothing", "bf16", "BSND", 3, (5, ), (3, ),
               heads=1, slots=3)
    yield make("float_weights", "weights in float", "bf16", "TND", 3, (3, ), (11, ), weights_dtype="f32")
    yield make("one_query", "decoding: one row, more keys than are packed at a time", "f16", "BSND", 3, (1, ),
               (300, ), heads=1, dim=128, slots=20)
    yield make("one_key", "one key", "f16", "BSND", 3, (1, ), (1, ), heads=3, slots=2)
    yield make("slot_1", "one slot", "f16", "TND", 0, (3, ), (5, ), heads=1, slots=1)
    yield make("heads_64", "as many heads as are documented", "bf16", "TND", 3, (2, ), (40, ), heads=64, slots=33)
    yield make("heads_70_extended", "more than documented, small", "f16", "TND", 3, (2, ), (5, ), heads=70, dim=5,
               slots=5)
    yield make("slots_3072", "more slots than the gradient takes, and than there are keys", "bf16", "TND", 0, (1, ),
               (9, ), heads=1, slots=3072)
    yield make("no_keys", "a pack without keys", "f16", "TND", 0, (2, ), (0, ), kv_slack=2, heads=1, slots=3)
