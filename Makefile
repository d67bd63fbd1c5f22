# The front door: a thin task runner over CMake. `make help` lists the tasks. What a task needs it installs (see
# tools/setup.sh and cmake/packages.txt), into build/ and build-*/ it builds.
PREFIX ?= /usr/local
BENCH ?= smoke models edge
TORCH_PYTHON ?= /usr/bin/python3
MINUTES ?= 1
SECONDS ?= 60
ROUNDS ?= 5
QEMU_PACKAGES := $(if $(filter x86_64,$(shell uname -m)),test-qemu)

.PHONY: all demo demo-operators test test-long fuzz coverage lint goldens format install clean help

all:            ## build/lib/libaclgrad.so and .a
	@tools/setup.sh build
	@cmake --preset release $(if $(wildcard build/CMakeCache.txt),,-DACLGRAD_TESTS=OFF)
	@cmake --build build

demo:           ## trains a small language model on real text for SECONDS (60), every operator at work
	@tools/setup.sh build demo
	@$(MAKE) --no-print-directory all
	@build/bin/train_text --seconds $(SECONDS) --checkpoint build/train_text.checkpoint --curve build/train_text.csv
	@gnuplot -e "curve='build/train_text.csv'; picture='build/train_text.svg'" examples/train_text/curve.gp
	@echo "the curve as a picture: build/train_text.svg"

demo-operators: all ## the operators on realistic inputs, checked and timed: one table
	@build/bin/aclgrad_demo

test:           ## all short tests: release, sanitizers, emulated CPUs (minutes)
	@tools/setup.sh build test $(QEMU_PACKAGES)
	@tests/run.sh short

test-long:      ## sweeps, thread and memory sanitizers, failing allocations, mutations (an hour)
	@tools/setup.sh build test long $(QEMU_PACKAGES)
	@tests/run.sh long

fuzz:           ## every fuzz target for MINUTES (default 1) with libFuzzer; see tests/fuzz/README.md
	@tools/setup.sh build test fuzz
	@tests/fuzz/run.sh libfuzzer $(MINUTES)

coverage:       ## which lines and branches the short tests run: a table per file, and build-coverage/coverage/
	@tools/setup.sh build test coverage
	@tests/coverage.sh

lint:           ## format, scripts, layers, figures, manual page, clang-tidy, cppcheck
	@tools/setup.sh build test lint
	@tests/lint/run.sh

goldens:        ## makes the files under tests/golden again (needs PyTorch: half a gigabyte)
	@tools/setup.sh golden
	@/usr/bin/python3 tests/golden/make_goldens.py

bench: all      ## times the problem files of bench/ into bench/results/*.csv (minutes; BENCH="smoke models edge")
	@for file in $(BENCH); do build/bin/aclgrad bench --csv @bench/$$file.txt >bench/results/$$file.csv && \
	    cat bench/results/$$file.csv || exit 1; done

bench-peers:    ## builds bench/peers: the same work through oneDNN and OpenBLAS (x86-64)
	@tools/setup.sh build peers
	@cmake -S . -B build-peers -G Ninja -DACLGRAD_BENCH_PEERS=ON -DACLGRAD_TESTS=OFF >/dev/null
	@cmake --build build-peers

bench-compare: bench-peers ## the product and its peers in turns, as ratios: bench/results/compare.csv
	@bench/compare.py --rounds $(ROUNDS) --csv bench/results/compare.csv build-peers/bin/aclgrad \
	    'build-peers/bin/aclgrad_peers --peer onednn' --also 'build-peers/bin/aclgrad_peers --peer openblas' \
	    --also 'build-peers/bin/aclgrad_peers --peer loop' --also '$(TORCH_PYTHON) bench/peers/torch_peers.py' $(BENCH:%=@bench/%.txt)

bench-bits: all ## the problems of bench/ with 1, 2, 3 and 7 threads: the same bits (an hour; BENCH=models)
	@bench/same_bits.sh build/bin/aclgrad $(BENCH:%=bench/%.txt)

roofline:       ## bench/results/*.csv as a picture: docs/roofline.svg
	@tools/setup.sh peers
	@/usr/bin/python3 bench/roofline.py docs/roofline.svg $(BENCH:%=bench/results/%.csv)

format:         ## rewrites the sources in the house format
	@tools/setup.sh lint
	@git ls-files '*.c' '*.h' '*.inc' '*.cpp' '*.hpp' | xargs clang-format -i

install: all    ## headers, libraries, pkg-config file and CMake package under PREFIX (default /usr/local)
	@cmake --install build --prefix "$(PREFIX)"

clean:          ## removes build/ and build-*/
	@rm -rf build build-*/

help:           ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/make \1\t\2/p' Makefile | expand -t 18
