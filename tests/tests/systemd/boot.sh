# Boots systemd as process 1 of its own namespaces, with this machine's files, which it cannot
# change: boot.sh UNITS STATE CGROUP. systemd knows only the units in UNITS; STATE is its /var/lib.
set -e
units=$1 state=$2 cgroup=$3
if [ -z "${4:-}" ]; then
	mkdir -p "$cgroup"
	echo $$ >"$cgroup/cgroup.procs"
	exec unshare --pid --mount --net --uts --ipc --cgroup --fork --kill-child --mount-proc \
		bash "$0" "$units" "$state" "$cgroup" inside
fi
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount --bind "$state" /var/lib
# systemd writes its messages there.
: >"$state/console"
mount --bind "$state/console" /dev/console
mount -t tmpfs -o mode=755 tmpfs /run
mount -o remount,bind,ro /
exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH="$units" \
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=console \
	--default-standard-output=null --show-status=no
