#!/bin/sh
# Documents: every relative link leads to a file of the tree; README.md stays within 150 lines and names the make tasks;
# every ACLGRAD_* variable that README.md names exists.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
fail() {
    echo "$*"
    status=1
}

# shellcheck disable=SC2044 # file names of this tree hold no spaces
for document in $(find . -name '*.md' ! -path './build*' ! -path './.git/*'); do
    grep -oE '\]\([^)#: ]+[)#]' "$document" | sed 's/^](//; s/.$//' | while read -r target; do
        [ -e "$(dirname "$document")/$target" ] || echo "$document: no such file: $target"
    done
done | grep . && status=1

[ "$(wc -l <README.md)" -le 150 ] || fail "README.md: more than 150 lines"
for task in demo test test-long lint install help; do
    grep -q "make $task" README.md || fail "README.md: does not name make $task"
    grep -q "^$task:" Makefile || fail "Makefile: no task $task"
done
for variable in $(grep -ohE '`ACLGRAD_[A-Z_]+' README.md | tr -d '`' | sort -u); do
    grep -rqE "\"$variable\"|\($variable" src CMakeLists.txt || fail "README.md: nothing reads $variable"
done
exit $status
