#!/bin/sh
# Starts a node in a container. Container runtimes mount cgroup v2 read-only unless the container is privileged; with
# CAP_SYS_ADMIN it can be made writable, and the engine needs that for the memory and process limits of each run.
set -eu
if [ -f /sys/fs/cgroup/cgroup.controllers ] && [ ! -w /sys/fs/cgroup/cgroup.procs ]; then
    mount -o remount,rw /sys/fs/cgroup \
        || echo "ces-node: /sys/fs/cgroup stays read-only; the full isolation tier will be refused" >&2
fi
exec dmc-optim ces serve "$@"
