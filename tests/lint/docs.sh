#!/bin/sh
# Documents: every relative link leads to a file of the tree; README.md stays within 150 lines and names the make tasks;
# make help lists every task; every ACLGRAD_* variable that README.md names exists, and every one that is read is in
# README.md, the manual page and aclgrad.h; every function of the acl and aclnn interface that a page names is declared.
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
# shellcheck disable=SC2013 # words are what is wanted
for task in $(sed -n 's/^\.PHONY: //p' Makefile); do
    make -s help | grep -q "^make $task " || fail "Makefile: make help does not list $task"
done
for variable in $(grep -ohE '`ACLGRAD_[A-Z_]+' README.md | tr -d '`' | sort -u); do
    grep -rqE "\"$variable\"|\($variable" src CMakeLists.txt || fail "README.md: nothing reads $variable"
done
for variable in $(grep -ohE '"ACLGRAD_[A-Z_]+"' -r src | tr -d '"' | sort -u); do
    for place in README.md docs/man/aclgrad.1 include/aclgrad/aclgrad.h; do
        grep -q "$variable" "$place" || fail "$place: does not name $variable"
    done
done
names=$(grep -ohE '\<acl(rt|nn)?[A-Z][A-Za-z0-9]+\>' README.md docs/*.md docs/operators/*.md | sort -u)
for name in $names; do
    grep -rqw "$name" include || fail "the pages name $name, which no header declares"
done
exit $status
