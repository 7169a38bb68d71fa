#!/bin/sh
# PostgreSQL's programs, without a server of the system's own: tests start private ones. Does nothing when they are there.
set -eu
for folder in /usr/lib/postgresql/*/bin; do
    [ -x "$folder/initdb" ] && exit 0
done
command -v initdb >/dev/null 2>&1 && exit 0
if ! command -v apt-get >/dev/null 2>&1; then
    echo "PostgreSQL is missing and this is not a Debian: install PostgreSQL 15 or later, with initdb on the PATH" >&2
    exit 1
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
export DEBIAN_FRONTEND=noninteractive
$as_root mkdir -p /etc/postgresql-common/createcluster.d
echo "create_main_cluster = false" | $as_root tee /etc/postgresql-common/createcluster.d/no-server.conf >/dev/null
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends postgresql-15 ||
    $as_root apt-get install -y -qq --no-install-recommends postgresql
