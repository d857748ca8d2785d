# Debian packages: installed on this machine, and downloaded as files for images. Sourced by setup.

host_packages=(docker.io chromium bubblewrap iptables squashfs-tools debian-archive-keyring libseccomp2 libsqlite3-0 openssh-server podman catatonit crun uidmap slirp4netns)

refresh_package_lists() {  # at most once in a run
  [ -n "${lists_are_fresh:-}" ] || apt-get -qq update
  lists_are_fresh=1
}

install_host_packages() {
  local package missing=()
  for package in "${host_packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  mkdir -p /run/sshd  # root's sshd does not start without it
  [ ${#missing[@]} -gt 0 ] || return 0
  refresh_package_lists
  log "installing ${missing[*]}"
  without_starting_services apt-get -qq -y -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}" \
    >"$state/apt.log" 2>&1 || { tail -n 20 "$state/apt.log" >&2; die "apt-get install failed"; }
}

without_starting_services() {  # a package's own script would start its service, and fail without systemd
  local policy=/usr/sbin/policy-rc.d ours= code=0
  if [ ! -e "$policy" ]; then
    ours=1
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  "$@" || code=$?
  [ -z "$ours" ] || rm -f "$policy"
  return $code
}

# fetch_packages FOLDER PACKAGE...: the packages and all their dependencies, as .deb files. apt resolves them against
# an empty machine, and checks their signatures.
fetch_packages() {
  local folder=$1
  shift
  refresh_package_lists
  mkdir -p "$folder/partial"
  : >"$folder/status"
  apt-get -qq -y -o Dir::State::status="$folder/status" -o Dir::Cache::archives="$folder" -o Debug::NoLocking=1 \
    -o APT::Sandbox::User=root -o APT::Install-Recommends=0 -o Dpkg::Use-Pty=0 --download-only install "$@" >/dev/null
}

debian_mirror() {  # the mirror in this machine's apt configuration
  local uri
  uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | sort -u)
  [ -n "$uri" ] || die "apt knows no Debian mirror; look at /etc/apt/sources.list"
  printf '%s\n' "${uri%%$'\n'*}"
}

# fetch_from_sid FOLDER PACKAGE: a single package of Debian's unstable release, into FOLDER. apt uses a separate state
# in FOLDER, so that this machine is offered no other unstable package.
fetch_from_sid() {
  local folder=$1 package=$2 key=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$folder"/lists/partial "$folder"/archives/partial
  : >"$folder/status"
  printf 'deb [signed-by=%s] %s sid main\n' "$key" "$(debian_mirror)" >"$folder/sources.list"
  local options=(
    -qq -o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$folder/lists" -o Dir::State::status="$folder/status"
    -o Dir::Cache="$folder" -o Dir::Cache::archives="$folder/archives" -o APT::Sandbox::User=root
    -o Acquire::Languages=none -o Debug::NoLocking=1
  )
  apt-get "${options[@]}" update
  (cd "$folder" && apt-get "${options[@]}" download "$package")
}
