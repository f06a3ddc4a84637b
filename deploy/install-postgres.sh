#!/usr/bin/env bash
# Makes sure that PostgreSQL's server programs, version 15 or later, are on this machine: the dev command and the
# tests start private servers with them. Does nothing, in a few milliseconds, when they are.
#
# On Debian and Ubuntu it installs the distribution's server package, as root or with password-less sudo, and
# neither creates nor starts a system cluster. Anywhere else, and whenever it can't, it prints one line that says
# what to run, and exits with 2.
set -euo pipefail

readonly OLDEST=15
readonly HINT="then run this again; or set GATEWAY_PG_BIN to the directory of an initdb and postgres of version $OLDEST or later"
readonly DROPIN=/etc/postgresql-common/createcluster.d/zz-sallyport-install.conf

give_up() {
	echo "install-postgres: $1" >&2
	exit 2
}

# Whether a directory holds a server that is new enough. The same places are looked at by internal/localpg.
usable() {
	local version
	[[ -x $1/initdb && -x $1/postgres ]] || return 1
	version=$("$1/postgres" -V 2>/dev/null) || return 1 # postgres (PostgreSQL) 15.18 (Debian …)
	version=${version#*"(PostgreSQL) "}
	version=${version%%[!0-9]*}
	[[ -n $version ]] && ((version >= OLDEST))
}

installed() {
	local bin on_path
	on_path=$(type -P postgres) || on_path=
	for bin in "${on_path%/*}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin \
		/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin; do
		if [[ -n $bin ]] && usable "$bin"; then
			return 0
		fi
	done
	return 1
}

if [[ -n ${GATEWAY_PG_BIN:-} ]]; then
	usable "$GATEWAY_PG_BIN" && exit 0
	give_up "GATEWAY_PG_BIN=$GATEWAY_PG_BIN holds no initdb and postgres of version $OLDEST or later: correct it, or unset it"
fi
installed && exit 0

if ! type -P apt-get >/dev/null || ! type -P dpkg >/dev/null; then
	case $(uname -s) in
	Darwin) give_up "PostgreSQL is missing. Run \`brew install postgresql@17\`, $HINT" ;;
	*) give_up "PostgreSQL's server programs are missing. Install your system's PostgreSQL server package ($OLDEST or later), $HINT" ;;
	esac
fi

as_root=()
if ((EUID != 0)); then
	if ! type -P sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		give_up "PostgreSQL is missing, and installing it needs root. Run \`sudo $0\`, $HINT"
	fi
	as_root=(sudo -n)
fi

log=$(mktemp)
made_dropin=
cleanup() {
	rm -f "$log"
	if [[ -n $made_dropin ]]; then
		"${as_root[@]}" rm -f "$DROPIN"
		"${as_root[@]}" rmdir --ignore-fail-on-non-empty "${DROPIN%/*}" 2>/dev/null || true
	fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

apt() { # quiet unless it fails; waits for another apt
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1 </dev/null
}

failed() {
	tail -n 5 "$log" >&2
	give_up "installing $1 failed (see above). Run \`sudo apt-get update\` and see to what it says, $HINT"
}

# The server package that the distribution's "postgresql" stands for; nothing when the lists don't know it.
server_package() {
	{ apt-cache depends postgresql 2>/dev/null || true; } | sed -n 's/^ *Depends: \(postgresql-[0-9][0-9]*\)$/\1/p' | head -n 1
}

install() { # with fresh lists if the ones at hand have gone stale
	apt install --no-install-recommends "$@" && return
	apt update || true
	apt install --no-install-recommends "$@" || failed "$*"
}

package=$(server_package)
if [[ -z $package ]]; then
	echo "install-postgres: reading the package lists" >&2
	apt update || true
	package=$(server_package)
fi
[[ -n $package ]] || give_up "apt knows no package postgresql. Run \`sudo apt-get update && sudo apt-get install postgresql\`, $HINT"
if ((${package#postgresql-} < OLDEST)); then
	give_up "this system's PostgreSQL is ${package#postgresql-}. Install $OLDEST or later from https://www.postgresql.org/download/, $HINT"
fi

echo "install-postgres: installing $package, without a system cluster" >&2
# First what holds the settings, then "no main cluster", and only then the server, which would create it.
install postgresql-common
"${as_root[@]}" mkdir -p "${DROPIN%/*}"
made_dropin=yes
echo "create_main_cluster = false" | "${as_root[@]}" tee "$DROPIN" >/dev/null
create=$(pg_conftool /etc/postgresql-common/createcluster.conf show -bs create_main_cluster 2>/dev/null) || create=
if [[ $create != off ]]; then
	give_up "cannot keep $package from creating a system cluster. Run \`sudo apt-get install $package\` if you don't mind one, $HINT"
fi
install "$package"
installed || give_up "$package is installed, but has no initdb and postgres. Set GATEWAY_PG_BIN to their directory"
