# packages.sh: installs what is missing from Debian's packages. Read by docs/quickstart.sh and tests/run.sh, not run by itself.
#
# need PACKAGE command NAME     the package is wanted unless a program of that name is there
# need PACKAGE module NAME      … unless pkg-config knows the module
# need PACKAGE file PATH        … unless the file is there (a pattern is fine)
# install_needed                installs all that is wanted, with one apt-get call; does nothing when nothing is
needed=

need() {
    case $2 in
    command) command -v "$3" >/dev/null 2>&1 && return 0 ;;
    module) pkg-config --exists "$3" 2>/dev/null && return 0 ;;
    file) for candidate in $3; do [ -e "$candidate" ] && return 0; done ;;
    esac
    needed="$needed $1"
}

# What the build needs.
need_build() {
    need gcc command cc
    need libc6-dev file "/usr/include/stdio.h"
    need cmake command cmake
    command -v ninja >/dev/null 2>&1 || need make command make
    need pkg-config command pkg-config
    need libuv1-dev module libuv
    need libcurl4-openssl-dev module libcurl
    need liblmdb-dev module lmdb
    need libsodium-dev module libsodium
    need libcjson-dev module libcjson
    need libseccomp-dev module libseccomp
    need libssl-dev module openssl
    need zlib1g-dev module zlib
    need libbrotli-dev module libbrotlidec
    need libzstd-dev module libzstd
    # llhttp is a library from Debian 13 on; Debian 12 ships its source with node-llhttp.
    if ! pkg-config --exists libllhttp 2>/dev/null && [ ! -e /usr/share/llhttp/llhttp.c ]; then
        if apt-cache show libllhttp-dev >/dev/null 2>&1; then
            needed="$needed libllhttp-dev"
        else
            needed="$needed node-llhttp"
        fi
    fi
}

# What runs need.
need_runtime() {
    need bubblewrap command bwrap
    need git command git
    need ripgrep command rg
    need ca-certificates file "/etc/ssl/certs/ca-certificates.crt"
    need nodejs command node
    need npm command npm
}

# What tests of the web pages need.
need_browser() {
    need chromium command chromium
}

install_needed() {
    [ -n "$needed" ] || return 0
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "These Debian packages, or what your system calls them, are missing:$needed" >&2
        return 1
    fi
    as_root=
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            echo "Run this as root, or install sudo, or install these packages yourself:$needed" >&2
            return 1
        fi
        as_root=sudo
    fi
    echo "Installing:$needed"
    # Word splitting is meant: a list of package names.
    # shellcheck disable=SC2086
    {
        $as_root apt-get update -qq &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $needed >/dev/null
    }
    needed=
}
