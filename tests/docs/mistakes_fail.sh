#!/bin/sh
# Pages with one mistake each: page.py must find it. And one without, which it must let pass.
#
#     tests/docs/mistakes_fail.sh PYTHON BINDIR PREFIX
set -u
python=$1
bindir=$2
prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check pass|fail NAME [OPTION]: the page is standard input; ''' in it stands for a fence.
check() {
    sed "s/^'''/\`\`\`/" >"$work/$2.md"
    # shellcheck disable=SC2086 # an option or nothing
    if "$python" "$here/page.py" ${3-} "$bindir" "$prefix" "$work/$2.md" >"$work/log" 2>&1; then
        got=pass
    else
        got=fail
    fi
    [ "$got" = "$1" ] || {
        echo "$2: want $1, got $got"
        cat "$work/log"
        touch "$work/failed" # a pipe's end is a shell of its own
    }
}

whole='#include <stdio.h>

#include "aclgrad/aclgrad.h"

int main(void)
{
    printf("limits %d\n", (int)aclgrad_get_limits());
    return 0;
}'

printf "%s\n" "'''c" "$whole" "'''" "'''text" "limits 0" "'''" "'''console" '$ echo yes' yes "'''" | check pass right
printf "%s\n" "'''c" "$whole" "'''" "'''text" "limits 1" "'''" | check fail program_prints_other
printf "%s\n" "'''c" "$whole" "'''" | sed 's/return 0/return 1/' | check fail program_ends_badly
printf "%s\n" "'''c" "$whole" "'''" | sed 's/get_limits/get_limit/' | check fail program_does_not_compile
printf "%s\n" "'''c" "int unused;" "'''" | check fail program_without_main
printf "%s\n" "'''console" '$ echo yes' no "'''" | check fail command_prints_other
printf "%s\n" "'''console" '$ aclgrad check moe:t=1,k=1,h=1,nothing=1' "'''" | check fail command_fails
printf "%s\n" "'''c unused.c" "$whole" "'''" "'''console" '$ true' "'''" | check fail file_unused
printf "%s\n" "'''rust" "fn main() {}" "'''" "'''console" '$ true' "'''" | check fail unknown_language
printf "%s\n" "'''sh" "make coffee" "'''" "'''console" '$ true' "'''" | check fail unknown_task
printf "%s\n" "'''sh" "for x in" "'''" "'''console" '$ true' "'''" | check fail no_shell
printf "%s\n" "'''console" '$ true' | check fail block_without_end
printf "%s\n" "words" | check fail nothing_runs
printf "%s\n" "words" | check pass words_only --none
printf "%s\n" "'''console" '$ true' "'''" | check fail not_without_examples --none
for page in "$here"/../../docs/operators/*.md; do # a loop that computes something else: its first sum is a difference
    awk '/^```c loop/ { on = 1 } on { print } on && /^```$/ { exit }' "$page" >"$work/loop"
    awk '!done && sub(/\+=/, "-=") { done = 1 } { print }' "$work/loop" >"$work/changed"
    cmp -s "$work/loop" "$work/changed" && {
        echo "$page: nothing to change"
        touch "$work/failed"
    }
    check fail "$(basename "$page" .md)" <"$work/changed"
done
[ ! -e "$work/failed" ]
