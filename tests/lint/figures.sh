#!/bin/sh
# The figures of the house (CONTRIBUTING.md): functions at most 60 lines (kernel templates 80) and their median at most
# 15, at most 8 parameters (the API's entry points exempt), files at most 800 lines, macros at most 12 lines (X-macro
# lists, named ..._LIST, exempt).
#
#     tests/lint/figures.sh      prints the figures, and each place that passes a limit (then status 1)
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
lengths=$(mktemp)
trap 'rm -f "$lengths"' EXIT

files=$(git ls-files 'src/*.c' 'src/*.h' 'src/*.inc' 'tools/*.c' 'tools/*.h' 'include/*.h' 'tests/*.c' 'tests/*.h' \
    'examples/*.c' 'examples/*.h' 'examples/*.cpp' 'examples/*.hpp')

# shellcheck disable=SC2086 # file names of this tree hold no spaces
{
    wc -l $files | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines, want at most 800"; bad = 1 } END { exit bad }' ||
        status=1

    awk 'FNR == 1 { if (start) report(); start = 0 }
         function report() { if (length_ > 12) { print file ":" start ": macro of " length_ " lines, want at most 12"; bad = 1 } }
         /^[ \t]*#[ \t]*define/ && !/_LIST\(/ { start = FNR; file = FILENAME; length_ = 0 }
         start { ++length_; if ($0 !~ /\\$/) { report(); start = 0 } }
         END { exit bad }' $files || status=1

    ctags --langmap=C:+.inc --languages=C,C++ --kinds-C=f --kinds-C++=f --fields=+neS -f - $files 2>/dev/null |
        awk -F '\t' -v lengths="$lengths" '
        {
            begin = end = 0; parameters = ""
            for (i = 4; i <= NF; ++i) {
                if ($i ~ /^line:/) begin = substr($i, 6)
                if ($i ~ /^end:/) end = substr($i, 5)
                if ($i ~ /^signature:/) parameters = substr($i, 11)
            }
            if (!end) next
            lines = end - begin + 1
            limit = $2 ~ /^src\/kernel\// || $2 ~ /\.inc$/ ? 80 : 60
            if (lines > limit) { print $2 ":" begin ": " $1 " has " lines " lines, want at most " limit; bad = 1 }
            count = gsub(/,/, ",", parameters) + 1
            if (count > 8 && $1 !~ /^acl/) { print $2 ":" begin ": " $1 " has " count " parameters, want at most 8"; bad = 1 }
            if ($2 ~ /^src\//) print lines > lengths
        }
        END { exit bad }' || status=1
}
sort -n "$lengths" | awk '{ l[NR] = $1 } END {
    median = l[int((NR + 1) / 2)]
    print NR " functions in src/, median " median " lines, longest " l[NR]
    exit median > 15 }' || { echo "median function length: want at most 15 lines"; status=1; }
exit $status
