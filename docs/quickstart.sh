#!/bin/sh
# quickstart.sh: from a checkout to a finished run, in one command.
#
# Installs what is missing, builds, starts the supervisor, hands a small task to OpenCode in a sandbox through the real
# sandbox-mcp, and prints the result, the diff, and what to paste into your client. Run it as often as you like.
#
# ANTHROPIC_API_KEY set: the model is Anthropic's, and the key is stored in your installation. Not set: a scripted stand-in
# model plays its part, in a folder of its own, and your configuration is not touched.
set -eu

docs=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$docs")
build=${SANDBOX_BUILD:-$root/build}
data=${XDG_DATA_HOME:-$HOME/.local/share}/sandbox-mcp
opencode_version=1.18.33
aimock_version=1.43.0
node_version=22.23.3

say() { printf '\n== %s\n' "$*"; }
die() {
    printf '%s\n' "$*" >&2
    exit 1
}

# The key is taken out of the environment at once: it leaves this script only through the standard input of sandboxctl.
key=${ANTHROPIC_API_KEY:-}
unset ANTHROPIC_API_KEY

say "Packages"
. "$docs/packages.sh"
need_build
need_runtime
install_needed || die "Some packages could not be installed."
echo "All there."

case $(uname -m) in
x86_64) cpu=x64 ;;
aarch64) cpu=arm64 ;;
*) die "OpenCode has no program for $(uname -m)." ;;
esac

# OpenCode's npm package brings the program for this system in a package of its own. Install scripts are not needed (and npm 11
# does not run them): the program is linked where the supervisor looks for it.
say "OpenCode $opencode_version"
agent=$data/agents/opencode
if [ "$(cat "$agent/version" 2>/dev/null)" != "$opencode_version" ] || [ ! -x "$agent/bin/opencode" ]; then
    mkdir -p "$agent/bin"
    npm install --prefix "$agent" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error "opencode-ai@$opencode_version"
    program=
    for candidate in "$agent/node_modules/opencode-linux-$cpu/bin/opencode" "$agent/node_modules/opencode-linux-$cpu"-*/bin/opencode; do
        if [ -x "$candidate" ] && "$candidate" --version >/dev/null 2>&1; then
            program=$candidate
            break
        fi
    done
    [ -n "$program" ] || die "OpenCode was installed to $agent, but its program does not run here."
    ln -sf "$program" "$agent/bin/opencode"
    echo "$opencode_version" >"$agent/version"
fi
echo "$agent/bin/opencode"

say "Build"
mkdir -p "$build"
if [ ! -f "$build/build.ninja" ] && [ ! -f "$build/Makefile" ]; then
    generator="Unix Makefiles"
    command -v ninja >/dev/null 2>&1 && generator=Ninja
    rm -f "$build/CMakeCache.txt" # of a first try that failed
    cmake -S "$root" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DSANDBOX_TESTS=OFF >"$build/configure.log" 2>&1 ||
        { cat "$build/configure.log" >&2; die "cmake failed."; }
fi
cmake --build "$build" -j "$(nproc)" >"$build/build.log" 2>&1 || { tail -40 "$build/build.log" >&2; die "The build failed."; }
echo "$build/bin"
PATH=$build/bin:$PATH

# Waits until a command succeeds, at most about ten seconds.
wait_until() {
    count=0
    until "$@" >/dev/null 2>&1; do
        count=$((count + 1))
        [ $count -lt 100 ] || return 1
        sleep 0.1
    done
}
supervisor_answers() { sandboxctl status --json; }

# Starts the supervisor for good, unless it runs. It outlives this script, as it outlives the clients.
start_supervisor() {
    supervisor_answers >/dev/null 2>&1 && return 0
    mkdir -p "$state"
    setsid sandbox-supervisord </dev/null >>"$state/supervisord.log" 2>&1 9>&- &
    wait_until supervisor_answers || { tail -5 "$state/supervisord.log" >&2; die "The supervisor did not start."; }
}

model_pid=
client_pid=
key_lent=
run_file=
finish() {
    # A run that is left in its middle has lost its model: it must not go on without.
    if [ -n "$client_pid" ] && [ -s "$run_file" ]; then
        sandboxctl cancel "$(cat "$run_file")" >/dev/null 2>&1 && echo "The run was cancelled." >&2 || true
    fi
    for pid in $client_pid $model_pid; do
        kill "$pid" 2>/dev/null || true
    done
    # The demo's supervisor stays for an hour, so that the page can be looked at. It has no further use for a key.
    [ -z "$key_lent" ] || sandboxctl secret rm ANTHROPIC_API_KEY >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "Supervisor"
# The demo has a folder of its own: it needs a setting (a local repository that runs may clone), and yours are not touched.
if [ -n "$key" ]; then
    echo "The model is Anthropic's, with your key, which is stored in your installation for later runs."
    state=${SANDBOX_MCP_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/sandbox-mcp}
    start_supervisor
    printf '%s' "$key" | sandboxctl secret set ANTHROPIC_API_KEY >/dev/null
fi

work=${XDG_STATE_HOME:-$HOME/.local/state}/sandbox-mcp-demo
state=$work/state
mkdir -p "$state" "$work/model"
chmod 700 "$work" "$state"
# A second demo would take the first one's supervisor away. The lock goes with this script: what stays doesn't hold it.
exec 9>"$work/lock"
sandboxctl() { command sandboxctl "$@" 9>&-; }
flock -n 9 || die "A quickstart is at work already. Wait for its end, or end it, and start this one again."
SANDBOX_MCP_CONFIG=$work/config.json
SANDBOX_MCP_STATE=$state
SANDBOX_MCP_DATA=$data
unset SANDBOX_MCP_RUNTIME
export SANDBOX_MCP_CONFIG SANDBOX_MCP_STATE SANDBOX_MCP_DATA

services=
if [ -z "$key" ]; then
    echo "No ANTHROPIC_API_KEY is set, so a scripted stand-in plays the model; everything else is real."
    stand_in=$work/model/node_modules/@copilotkit/aimock/dist/cli.js
    if [ "$(cat "$work/model/version" 2>/dev/null)" != "$aimock_version" ]; then
        npm install --prefix "$work/model" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error "@copilotkit/aimock@$aimock_version"
        # It needs a newer Node than Debian 12 has.
        if ! node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 15) ? 0 : 1)'; then
            npm install --prefix "$work/model" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error "node-linux-$cpu@$node_version"
        fi
        echo "$aimock_version" >"$work/model/version"
    fi
    model_node=$work/model/node_modules/node-linux-$cpu/bin/node
    [ -x "$model_node" ] || model_node=node

    # The stand-in accepts one key, made up here and now. It is the real key of this demo: the sandbox never sees it.
    key=sk-demo-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    : >"$work/model/log"
    AIMOCK_API_KEYS=$key "$model_node" "$stand_in" -p 0 -f "$root/tests/model/fixtures" --log-level info >"$work/model/log" 2>&1 9>&- &
    model_pid=$!
    wait_until grep -q 'listening on' "$work/model/log" || { cat "$work/model/log" >&2; die "The stand-in model did not start."; }
    model=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$work/model/log" | head -n 1)
    services="\"services\": { \"anthropic\": { \"target\": \"$model\" } },"
fi

cat >"$work/config.json" <<EOF
{
  $services
  "localRepositories": [ "$(printf '%s' "$work" | sed 's/["\\]/\\&/g')" ],
  "idleExitMinutes": 60
}
EOF
# A supervisor of an earlier demo has the earlier settings.
supervisor_is_gone() { ! supervisor_answers; }
if supervisor_answers >/dev/null 2>&1; then
    sandboxctl stop >/dev/null 2>&1 || true
    wait_until supervisor_is_gone || die "The supervisor of an earlier demo does not end."
fi
start_supervisor
key_lent=1
printf '%s' "$key" | sandboxctl secret set ANTHROPIC_API_KEY >/dev/null
key=
sandboxctl status

say "A repository with a failing test"
repository=$work/sample
rm -rf "$repository"
sh "$root/tests/sample/make.sh" "$repository"
echo "$repository"
(cd "$repository" && sh tests/run.sh 2>&1 | head -n 1) || true

say "A run"
run_file=$work/run
rm -f "$run_file"
node "$root/tests/quickstart-client.mjs" "$build/bin/sandbox-mcp" "$repository" "$run_file" 9>&- &
client_pid=$!
status=0
wait "$client_pid" || status=$?
client_pid=
[ $status = 0 ] || die "The run did not complete. Look at $state/supervisord.log, and run: $build/bin/sandboxctl doctor"
printf '\nDiff:\n'
sandboxctl diff "$(cat "$run_file")"

quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"; }
ctl="SANDBOX_MCP_CONFIG=$(quoted "$SANDBOX_MCP_CONFIG") SANDBOX_MCP_STATE=$(quoted "$state") $(quoted "$build/bin/sandboxctl")"
say "Look around in the demo"
cat <<EOF
Its supervisor stays until nothing was asked of it for an hour. It has files and settings of its own:

  $ctl get last
  $ctl logs last
  $ctl web
  $ctl stop

EOF
if [ -n "$model_pid" ]; then
    echo "The stand-in that played the model ends with this script: a message to the demo's agent finds no model. Run this script again for another run."
fi

say "Your client"
cat <<EOF
Put the programs on your PATH, with their manual pages:

  cmake --install $(quoted "$build") --prefix "\$HOME/.local"

Claude Code:

  claude mcp add --scope user sandbox -- "$build/bin/sandbox-mcp"

Claude Desktop, Cursor and others that take JSON:

  {
    "mcpServers": {
      "sandbox": { "command": "$build/bin/sandbox-mcp", "args": [] }
    }
  }

EOF
if [ -n "$model_pid" ]; then
    cat <<EOF
Store your key before the first real run (it is asked for and not shown):

  "$build/bin/sandboxctl" secret set ANTHROPIC_API_KEY
EOF
fi
