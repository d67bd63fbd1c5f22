#!/bin/sh
# train.sh PROGRAM: examples/train_text learns, its bits do not depend on threads or on a stop and a start between, and it
# refuses what is no checkpoint of its own.
set -eu

program=$1
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
output=out
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
train() { # OPTIONS: 80 steps of 512 bytes of the project's own licence and pages, seed 1
    "$program" --text "$folder/text" --tokens 512 --seed 1 --sample 0 "$@" >out 2>err || fail "train_text $*: $(cat err)"
}
refuses() { # STATUS PATTERN OPTIONS
    status=$1 pattern=$2
    shift 2
    set +e
    "$program" --text "$folder/text" --tokens 512 --seed 1 --sample 0 --steps 1 "$@" >"$output" 2>err
    got=$?
    set -e
    [ "$got" = "$status" ] || fail "train_text $*: status $got, want $status"
    grep -q -- "$pattern" err || fail "train_text $*: message '$(cat err)', want '$pattern'"
}

cat "$here"/../../LICENSE "$here"/../../docs/*.md >text

# It learns: well below what frequencies alone give, and the indexer finds what the attention looks at.
train --steps 80 --threads 1 --curve one.csv --checkpoint one
awk -F, '
    NR > 1 && NR <= 6 { start += $4 / 5 }
    NR > 61 { end += $4 / 20; loss += $2 / 20; unigram = $5 }
    END {
        printf "loss %.3f, by frequency alone %.3f; recall %.3f, at the start %.3f\n", loss, unigram, end, start
        exit !(NR == 81 && loss < unigram - 0.4 && end > start + 0.1)
    }' one.csv || fail "it did not learn"

# The same bits with two threads, and with a stop in the middle.
train --steps 80 --threads 2 --curve two.csv --checkpoint two
cmp one.csv two.csv || fail "the curve depends on the number of threads"
cmp one two || fail "the parameters depend on the number of threads"
train --steps 30 --checkpoint half
train --steps 80 --resume half --checkpoint whole --curve rest.csv
cmp one whole || fail "a resumed training ends elsewhere"
tail -n 50 one.csv >want.csv
tail -n +2 rest.csv | cmp - want.csv || fail "a resumed training takes another way"

# Ctrl-C: the step is finished, all is saved.
"$program" --text text --tokens 512 --seed 1 --seconds 100 --sample 300 --checkpoint stopped >out 2>err &
sleep 2
kill -INT $!
wait $! || fail "Ctrl-C: status $?"
grep -q 'saved to stopped' out || fail "Ctrl-C saved nothing"
train --seconds 1 --resume stopped --checkpoint again

# Ctrl-C while it writes: it ends, and the table has been printed.
"$program" --text text --tokens 512 --seed 1 --steps 1 --sample 100000 >out 2>err &
until grep -q '1 steps' out; do
    kill -0 $! || fail "no table before the sample"
    sleep 0.1
done
kill -INT $!
if wait $!; then fail "Ctrl-C did not end the sample"; fi

# What is no checkpoint, or not the whole of one, or another's.
head -c 100000 half >short
refuses 4 'cut off' --resume short
head -c 50 half >shorter
refuses 4 'cut off in its header' --resume shorter
refuses 4 'no checkpoint' --resume one.csv
(cat half; echo) >longer
refuses 4 'behind its end' --resume longer
(head -c 5000 half; printf x; tail -c +5002 half) >damaged
refuses 4 'checksum' --resume damaged
refuses 4 'another text' --resume half --seed 2
refuses 4 'another text' --resume half --rate 0.1
refuses 2 'leaves none to do' --resume half --steps 30
refuses 4 'another text' --resume half --text "$here/../../LICENSE"
refuses 4 'No such file' --resume nothing
refuses 4 'No such file' --text nothing
refuses 4 'want at least' --text shorter

# What cannot be written: known before the training where that can be, told in any case.
refuses 4 'cannot be saved: No such file' --checkpoint no/such/folder
mkdir folder
refuses 4 'cannot be saved: is there' --checkpoint folder
! grep -q step err || fail "trained before it looked at --checkpoint"
refuses 4 'curve cannot be written' --curve /dev/full
output=/dev/full
refuses 4 'standard output cannot be written'
output=out

refuses 2 'want a whole number from 64' --tokens 63
refuses 2 'want a number above 0' --seconds -1
refuses 2 'want options only' word
[ ! -e no ] || fail "something was left behind"
echo "all as it should be"
