// escape-probes.mjs: what a hostile agent tries, and what must come of it. Each row: a name, the command (bash, inside the
// sandbox), and what is expected.
//
//   denied     it fails, for whatever reason
//   refused    it fails because it is forbidden or unknown, not because the probe asked wrongly
//   allowed    it works: a sandbox that breaks its tools protects nobody's time
//   a pattern  what the last line of its output must be
//
// $PROBE is the program of tests/probe. What lies on the host, and must not be reached: $CANARY_FILE, $CANARY_SOCKET (a listening
// socket with open permissions, like a container engine's), $CANARY_ABSTRACT, $CANARY_PORT, $HOST_PID (the supervisor), $STATE (its
// state folder), $OTHER_RUNTIME and $OTHER_WORKSPACE (another live run's folders).
const refused = /^denied (EPERM|EACCES|ENOSYS|EROFS|EAFNOSUPPORT|EPROTONOSUPPORT|ENOSPC|ENXIO)$|^killed SIGSYS$/;
const unreachable = /^denied (ENETUNREACH|EHOSTUNREACH|EADDRNOTAVAIL|EAFNOSUPPORT)$/;
const absent = /No such file or directory|Not a directory|Permission denied/;

// Settings of the machine are written back as they were read.
const rewrite = file => `value=$(cat ${file}) && [ -n "$value" ] && printf '%s\\n' "$value" >${file}`;

const files = [
    ['the password file', 'cat /etc/shadow', absent],
    ["root's home", 'ls -a /root', absent],
    ['the canary file of the host', 'cat "$CANARY_FILE"', absent],
    ['keys of ssh', 'cd / && cat root/.ssh/id_* home/*/.ssh/id_* ~/.ssh/id_*', absent],
    ["a container engine's socket", 'ls /run/docker.sock /var/run/docker.sock', absent],
    ['the system bus', 'ls /run/dbus/system_bus_socket /run/user', absent],
    ["another run's runtime folder", 'ls "$OTHER_RUNTIME"', absent],
    ["another run's workspace", 'ls "$OTHER_WORKSPACE"', absent],
    ["the supervisor's state folder", 'ls "$STATE"', absent],
    ['/var/lib', 'ls /var/lib', absent],
    ["init's root folder", '"$PROBE" root 1', refused],
    ["the host's files through init's root", 'cat "/proc/1/root$CANARY_FILE"', absent],
    ["init's working folder", 'ls /proc/1/cwd/', 'denied'],
    ['a file in /usr', 'touch /usr/bin/probe-was-here', 'denied'],
    ['a file in /etc', 'touch /etc/probe-was-here', 'denied'],
    ['a file in /', 'touch /probe-was-here', 'denied'],
    ['a file in /dev', 'touch /dev/probe-was-here', 'denied'],
    ['the memory devices', 'cat /dev/mem || cat /dev/kmem || cat /dev/port', absent],
    ['a disk', 'for disk in /dev/vd[a-z] /dev/sd[a-z] /dev/nvme* /dev/xvd*; do head -c 1 "$disk" && exit 0; done; false', 'denied'],
    ['the kernel log device', 'cat /dev/kmsg', absent],
    ['the hypervisor device', 'ls /dev/kvm', absent],
    ['the fuse device', 'ls /dev/fuse', absent],
    ['the vsock device', 'ls /dev/vsock /dev/vhost-vsock', absent],
    ['a device node of its own', '"$PROBE" mknod /workspace/block-device', refused],
    ['core_pattern', rewrite('/proc/sys/kernel/core_pattern'), 'denied'],
    ['sysrq', 'echo h >/proc/sysrq-trigger', 'denied'],
    ['kernel.panic', rewrite('/proc/sys/kernel/panic'), 'denied'],
    ['vm.overcommit_memory', rewrite('/proc/sys/vm/overcommit_memory'), 'denied'],
    ['ip_forward', rewrite('/proc/sys/net/ipv4/ip_forward'), 'denied'],
    ['a lower oom_score_adj', 'echo -1000 >/proc/self/oom_score_adj', 'denied'],
    ['kcore', 'head -c 1 /proc/kcore', 'denied'],
    ['control groups', 'echo $$ >/sys/fs/cgroup/cgroup.procs', 'denied'],
    ['/sys/kernel', 'ls /sys/kernel', absent],
    ['su', 'su -c id root', 'denied'],
    ['sudo', 'sudo -n id', 'denied'],
    ['the program mount', 'mount -t tmpfs none /mnt', 'denied'],
    ['writing in /workspace', 'echo a >/workspace/written && cat /workspace/written', 'allowed'],
    ['writing at home', 'echo a >~/written && cat ~/written', 'allowed'],
    ['writing in /tmp', 'echo a >/tmp/written && cat /tmp/written', 'allowed'],
];

const network = [
    ['TCP to the internet', '"$PROBE" tcp4 1.1.1.1 443', unreachable],
    ['TCP to the metadata address', '"$PROBE" tcp4 169.254.169.254 80', unreachable],
    ['TCP to a private address', '"$PROBE" tcp4 10.0.0.1 80', unreachable],
    ['TCP over IPv6', '"$PROBE" tcp6 2606:4700:4700::1111 443', unreachable],
    ['UDP to a name server', '"$PROBE" udp4 8.8.8.8 53', unreachable],
    ["a listener on the host's loopback", '"$PROBE" tcp4 127.0.0.1 "$CANARY_PORT"', /^denied ECONNREFUSED$/],
    ['a name', 'getent hosts example.com', 'denied'],
    ['an ICMP socket', '"$PROBE" icmp', refused],
    ['a raw socket', '"$PROBE" raw', refused],
    ['a raw IPv6 socket', '"$PROBE" raw6', refused],
    ['a packet socket', '"$PROBE" packet', refused],
    ['a vsock socket', '"$PROBE" vsock-socket', refused],
    ['vsock to the hypervisor', '"$PROBE" vsock', refused],
    ["a socket of the kernel's ciphers", '"$PROBE" alg', refused],
    ['SCTP', '"$PROBE" sctp', 'denied'],
    ['netlink: netfilter', '"$PROBE" netlink-netfilter', refused],
    ['netlink: audit', '"$PROBE" netlink-audit', refused],
    ['netlink: uevent', '"$PROBE" netlink-uevent', refused],
    ['every other family of sockets', '"$PROBE" other-families', refused],
    ['an abstract socket of the host', '"$PROBE" abstract "$CANARY_ABSTRACT"', /^denied ECONNREFUSED$/],
    ['a socket of the host', '"$PROBE" unix "$CANARY_SOCKET"', /^denied ENOENT$/],
    ["the supervisor's socket", '"$PROBE" unix "$STATE/run/supervisor.sock"', /^denied ENOENT$/],
    ["another run's control socket", '"$PROBE" unix "$OTHER_RUNTIME/ctl.sock"', /^denied (ENOENT|ENAMETOOLONG)$/],
    ['a new interface', 'ip link add probe0 type veth peer name probe1', 'denied'],
    ['a new address', 'ip address add 10.9.9.9/8 dev lo', 'denied'],
    ['netlink: route', '"$PROBE" netlink-route', 'allowed'],
    ['its own loopback', '"$PROBE" tcp4 127.0.0.1 1', /^denied ECONNREFUSED$/],
];

const processes = [
    ['the supervisor in /proc', 'grep -q supervisord "/proc/$HOST_PID/comm"', 'denied'],
    ["the supervisor's environment", '"$PROBE" environment "$HOST_PID"', 'denied'],
    ['a signal to the supervisor', '"$PROBE" signal "$HOST_PID" 0', /^denied ESRCH$/],
    ['killing init', '"$PROBE" signal 1 9; "$PROBE" signal 1 19; sleep 0.2; grep -q "^State:.T" /proc/1/status', 'denied'],
    ['tracing init', '"$PROBE" ptrace 1', refused],
    ['tracing its own shell', '"$PROBE" ptrace $$', refused],
    ["reading init's memory by a call", '"$PROBE" vm-read 1', refused],
    ["init's descriptors by a call", '"$PROBE" pidfd-getfd 1', refused],
    ["init's memory in /proc", '"$PROBE" memory 1', refused],
    ["init's descriptors in /proc", '"$PROBE" descriptors 1', refused],
    ["init's environment", '"$PROBE" environment 1', refused],
    ["init's namespaces", '"$PROBE" setns 1', refused],
    ['its own namespaces again', '"$PROBE" setns self', refused],
    ['uid 0', '"$PROBE" setuid', 'denied'],
    ['other groups', '"$PROBE" setgroups', refused],
    ['new privileges', '"$PROBE" new-privileges', 'denied'],
    ['nice -20', '"$PROBE" nice', refused],
    ['real-time scheduling', '"$PROBE" fifo', refused],
    ['more open files', '"$PROBE" more-files', refused],
    ['core files', '"$PROBE" core', refused],
];

const call = name => [`the call: ${name}`, `"$PROBE" ${name}`, refused];
const kernel = [
    ...['mount', 'remount', 'umount', 'pivot-root', 'chroot', 'fsopen', 'open-tree', 'unshare-user', 'unshare-net', 'clone-user',
        'clone-user-wide', 'clone3-user', 'keyctl', 'add-key', 'io-uring', 'bpf', 'userfaultfd', 'perf-event', 'fanotify', 'open-by-handle',
        'kexec-load', 'init-module', 'clock-settime', 'sethostname', 'swapon', 'syslog', 'iopl', 'quotactl', 'x32', 'personality',
        'tiocsti', 'tiocsti-wide', 'tioclinux', 'controlling-terminal'].map(call),
    // Without support for 32-bit programs the kernel ends it for another reason.
    ['the call: i386', '"$PROBE" i386', /^killed SIG(SYS|SEGV)$|^denied ENOSYS$/],
    ['an anonymous file', '"$PROBE" memfd', 'allowed'],
    ['fifty threads', '"$PROBE" threads 50', 'allowed'],
    ['a compiler', 'echo "int main(void) { return 0; }" >/tmp/c.c && cc /tmp/c.c -o /workspace/compiled && /workspace/compiled', 'allowed'],
    ['git', 'git init -q /tmp/git && cd /tmp/git && git commit -q --allow-empty -m x && git fsck', 'allowed'],
    ['a script language', 'perl -e "exit 0"', 'allowed'],
];

const limits = [
    ['a fork bomb', '"$PROBE" fork 5000', /^denied EAGAIN$/],
    ['all descriptors', '"$PROBE" files 100000', /^denied EMFILE$/],
];

export const groups = { files, network, processes, kernel, limits };

const quote = text => `'${text.replaceAll("'", "'\\''")}'`;

// The script that tries all of them and writes one line for each to RESULT: number, exit status, last line of the output.
export function probeScript(variables, result) {
    const rows = Object.values(groups).flat();
    const lines = Object.entries(variables).map(([name, value]) => `export ${name}=${quote(`${value}`)}`);
    lines.push('try() {',
        '    timeout -k 1 20 bash -c "$2" >/tmp/output 2>&1 </dev/null',
        '    printf \'%s\\t%s\\t%s\\n\' "$1" $? "$(tail -n 1 /tmp/output | tr -cd \'[:print:]\' | cut -c 1-200)" >>/tmp/results',
        '}', ': >/tmp/results');
    rows.forEach(([, command], index) => lines.push(`try ${index} ${quote(command)}`));
    lines.push(`mv /tmp/results ${result}`);
    return lines.join('\n') + '\n';
}

// What is wrong with the outcome of a row; '' when nothing is.
export function judge([, , expected], { code, line }) {
    if (code === 124 || code === 137)
        return `it hung: ${line}`;
    if (expected === 'allowed')
        return code === 0 ? '' : `it should work, but: ${line}`;
    if (code === 0)
        return `it was possible: ${line}`;
    if (expected instanceof RegExp && !expected.test(line))
        return `it failed for another reason than ${expected}: ${line}`;
    return '';
}

// A map from the row's number to its outcome.
export function parseResults(text) {
    const results = new Map();
    for (const row of text.split('\n').filter(Boolean)) {
        const [number, code, line] = row.split('\t');
        results.set(Number(number), { code: Number(code), line });
    }
    return results;
}
