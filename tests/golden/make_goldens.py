#!/usr/bin/python3
"""Writes the goldens: gradients by PyTorch's autograd, in double, of forwards that are written here from the contract.

    make_goldens.py [FOLDER]      default: where this file lies

The same machine architecture and the same PyTorch write the same bytes.
"""
import os
import sys

# Elementwise kernels that do not depend on the CPU at hand; sums and products are written without matrix products.
os.environ["ATEN_CPU_CAPABILITY"] = "default"

import torch

import attention_forward_goldens
import attention_goldens
import indexer_forward_goldens
import indexer_goldens
import moe_companions_goldens
import moe_goldens


def remove_old(folder):
    for operator in ("attention", "attention_forward", "indexer", "moe", "indexer_forward", "moe_permute",
                     "moe_permute_grad", "moe_unpermute", "moe_unpermute_grad"):
        directory = os.path.join(folder, operator)
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            if name.endswith(".npz"):
                os.remove(os.path.join(directory, name))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    remove_old(folder)
    lines = []
    for module in (attention_goldens, attention_forward_goldens, indexer_goldens, moe_goldens, indexer_forward_goldens,
                   moe_companions_goldens):
        for golden in module.goldens():
            golden.write(folder)
            lines.append(f"{golden.name:40} {golden.about}\n")
    assert len({line.split()[0] for line in lines}) == len(lines), "two goldens of one name"
    with open(os.path.join(folder, "index.txt"), "w", encoding="ascii") as index:
        index.writelines(lines)
    print(f"{len(lines)} goldens")


if __name__ == "__main__":
    main()
