#!/usr/bin/env python3
"""The golden tests fail when they should: damages copies of the goldens, one way at a time.

    can_fail.py PROGRAMS GOLDENS      where the test programs and the goldens are
"""
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

failures = 0


def path(folder, name):
    return os.path.join(folder, name)


def remove(name):
    return lambda folder: os.remove(path(folder, name))


def rewrite(name, change):
    """The text file with its text changed."""
    def damage(folder):
        with open(path(folder, name), encoding="ascii") as file:
            text = file.read()
        assert change(text) != text, name
        with open(path(folder, name), "w", encoding="ascii") as file:
            file.write(change(text))
    return damage


def truncate(name):
    return lambda folder: os.truncate(path(folder, name), os.path.getsize(path(folder, name)) - 30)


def flip_bit(name):
    """One bit of packed data, which the archive's checksum finds."""
    def damage(folder):
        with open(path(folder, name), "r+b") as file:
            content = bytearray(file.read())
            content[len(content) // 3] ^= 4
            file.seek(0)
            file.write(content)
    return damage


def copy(name, new):
    return lambda folder: shutil.copy(path(folder, name), path(folder, new))


def member(name, which, change):
    """The archive with one member changed, or gone where change returns None."""
    def damage(folder):
        with zipfile.ZipFile(path(folder, name)) as archive:
            contents = {entry: archive.read(entry) for entry in archive.namelist()}
        contents[which] = change(contents[which])
        with zipfile.ZipFile(path(folder, name), "w") as archive:
            for entry, content in contents.items():
                if content is not None:
                    archive.writestr(entry, content)
    return damage


def scale_last(content):
    """The last double off by a billionth."""
    return content[:-8] + struct.pack("<d", struct.unpack("<d", content[-8:])[0] * (1 + 1e-9) + 1e-9)


def scale_most(content):
    """Every double of the second half off by a tenth."""
    half = len(content) // 16 * 8
    values = struct.unpack(f"<{half // 8}d", content[-half:])
    return content[:-half] + struct.pack(f"<{half // 8}d", *(value * 1.1 for value in values))


def combinations_of(word):
    """No golden is listed whose name holds the word, and none is there."""
    def damage(folder):
        with open(path(folder, "index.txt"), encoding="ascii") as file:
            lines = file.readlines()
        for line in lines:
            if word in line.split()[0]:
                os.remove(path(folder, line.split()[0] + ".npz"))
        with open(path(folder, "index.txt"), "w", encoding="ascii") as file:
            file.writelines(line for line in lines if word not in line.split()[0])
    return damage


def run(program, folder, **more):
    environment = {**os.environ, "ACLGRAD_GOLDEN_DIR": folder, **more}
    done = subprocess.run([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def expect(program, source, damage, text):
    """With `damage` done to a copy the program fails and says `text`; with damage None it passes."""
    global failures
    with tempfile.TemporaryDirectory() as scratch:
        folder = path(scratch, "golden")
        shutil.copytree(source, folder, ignore=lambda _, names: [n for n in names if n.endswith((".py", ".c", ".h"))])
        if damage:
            damage(folder)
        code, output = run(program, folder)
    if (code == 0) != (damage is None) or text not in output:
        failures += 1
        print(f"{os.path.basename(program)}: exit status {code}, want text '{text}':\n{output[-2000:]}")


def expect_unwritten(hashes, source, name):
    """With one golden damaged it alone fails, by its name; nothing advises to write hashes.txt, nor writes it."""
    global failures
    with tempfile.TemporaryDirectory() as scratch:
        folder = path(scratch, "golden")
        shutil.copytree(source, folder, ignore=lambda _, names: [n for n in names if n.endswith((".py", ".c", ".h"))])
        truncate(name + ".npz")(folder)
        with open(path(folder, "hashes.txt"), encoding="ascii") as file:
            before = file.read()
        code, output = run(hashes, folder)
        wrong = code == 0 or "other bits" in output or set(re.findall(r"\[  FAILED  \] (\w+/\w+)", output)) != {name}
        code, writing = run(hashes, folder, ACLGRAD_GOLDEN_HASHES="write")
        with open(path(folder, "hashes.txt"), encoding="ascii") as file:
            wrong |= code == 0 or file.read() != before or "did not run: hashes.txt is left" not in writing
    if wrong:
        failures += 1
        print(f"test_golden_hashes, {name} truncated:\n{output[-2000:]}\n{writing[-2000:]}")


def main():
    programs, source = sys.argv[1:]
    moe, hashes = path(programs, "test_golden_moe"), path(programs, "test_golden_hashes")
    attention, indexer = path(programs, "test_golden_attention"), path(programs, "test_golden_indexer")
    tail = "moe/truncated.npz"
    expect(moe, source, None, "PASSED")
    expect(moe, source, remove("index.txt"), "index.txt: missing, or lists no golden")
    expect(moe, source, rewrite("index.txt", lambda text: ""), "index.txt: missing, or lists no golden")
    expect(moe, source, rewrite("index.txt", lambda text: text[:text.rindex("moe/")]), "is not in index.txt")
    expect(moe, source, remove(tail), "moe/truncated: ")
    expect(moe, source, truncate(tail), "moe/truncated: ")
    expect(moe, source, flip_bit(tail), "moe/truncated: ")
    expect(moe, source, copy(tail, "moe/unlisted.npz"), "moe/unlisted.npz is not in index.txt")
    expect(moe, source, member(tail, "probsGrad.npy", lambda content: None), "no gradient for probsGrad")
    expect(moe, source, member(tail, "probsGrad.npy", scale_last), "the definition: probsGrad[5, 3], element 14")
    expect(moe, source, member(tail, "permutedTokensGrad.npy", scale_most), "permutedTokensGrad[9, 8], element")
    expect(moe, source, combinations_of("topk_512"), "no golden with a number of experts per token: 512")
    expect(indexer, source, member("indexer/counts.npz", "dk.npy", scale_most), "the definition: dk")
    expect(indexer, source, combinations_of("tnd_f32"), "no golden with TND, mode 0")
    forward = path(programs, "test_golden_indexer_forward")
    expect(forward, source, member("indexer_forward/bsnd_bf16_mode0.npz", "sparseIndices.npy", scale_most),
           "the definition: sparseIndices")
    expect(forward, source, member("indexer_forward/bsnd_bf16_mode0.npz", "sparseValues.npy", scale_last),
           "the definition: sparseValues")
    expect(forward, source, combinations_of("pages_"), "no golden with a layout in mode: 80, 0")
    expect(attention, source, combinations_of("f16_mode7"), "no golden with sparse mode 7")
    expect(attention, source, member("attention/f32_mode4.npz", "dq.npy", scale_last), "the definition: dq")
    expect(attention, source, member("attention/f32_mode4.npz", "call.json",
                                     lambda call: call.replace(b'"preTokens": 1', b'"preTokens": 2')), "the definition: ")
    forward = path(programs, "test_golden_attention_forward")
    expect(forward, source, member("attention_forward/f32_mode4.npz", "attentionOut.npy", scale_last), "the definition: ")
    expect(forward, source, combinations_of("rope_mode7"), "no golden with a rope in each mode: 7")
    expect(hashes, source, rewrite("hashes.txt", lambda text: re.sub(r"(moe/truncated +)\w{8}", r"\g<1>01234567", text)),
           "moe/truncated, scalar: the outputs' hash is ")
    expect(hashes, source, rewrite("hashes.txt", lambda text: text[:text.rindex("moe/")]), "test_no_others")
    expect_unwritten(hashes, source, "attention/f32_mode4")
    print(f"{failures} wrong")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
