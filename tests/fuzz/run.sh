#!/bin/sh
# run.sh PROGRAM FOUND CORPUS: runs one libFuzzer program from its corpus, a fixed number of inputs from a fixed seed. With
# LONG=1 it searches for FUZZ_SECONDS (300) instead. New inputs and crashes go to the folder FOUND.
set -eu
program=$1
found=$2
corpus=$3

if [ -n "${LONG:-}" ]; then
    limit=-max_total_time=${FUZZ_SECONDS:-300}
else
    limit=-runs=${FUZZ_RUNS:-20000}
    # What an earlier run found would make this one another.
    rm -f "$found"/*
fi
dictionary=${corpus%/corpus/*}/${corpus##*/}.dict
[ ! -f "$dictionary" ] || limit="$limit -dict=$dictionary"
# shellcheck disable=SC2086 # the words of $limit are options
exec "$program" $limit -seed=1 -timeout=20 -print_final_stats=0 -verbosity=0 "-artifact_prefix=$found/" "$found" "$corpus"
