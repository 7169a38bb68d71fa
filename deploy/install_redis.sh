#!/bin/sh
# redis-server, without a server of the system's own: tests start private ones. Does nothing when it is there.
set -eu
command -v redis-server >/dev/null 2>&1 && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "redis-server is missing and this is not a Debian: install Redis 7 or later, with redis-server on the PATH" >&2
    exit 1
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
export DEBIAN_FRONTEND=noninteractive
# Without this the package would start a server on the well-known port.
policy=/usr/sbin/policy-rc.d
[ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null && $as_root chmod +x "$policy" && ours=1; }
$as_root apt-get update -qq
status=0
$as_root apt-get install -y -qq --no-install-recommends redis-server || status=$?
[ -z "${ours:-}" ] || $as_root rm -f "$policy"
exit $status
