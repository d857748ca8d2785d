# Podman with Docker's images, run by a user of its own where this machine allows rootless containers. Sourced by setup.

podman_user=e2e-podman
podman_home=$state/podman
podman_run=/run/$podman_user

set_up_podman() {
  local rootless driver runtime
  prepare_podman_user
  if [ -e "$podman_home/done" ] && podman_works; then
    return
  fi
  log "trying ways to run Podman"
  : >"$podman_home/trials.log"
  for rootless in yes no; do
    for driver in overlay vfs; do
      for runtime in crun runc; do
        command -v $runtime >/dev/null || continue
        write_podman $rootless $driver $runtime
        load_podman_images e2e-minimal 2>>"$podman_home/trials.log" || continue
        if podman_works 2>>"$podman_home/trials.log"; then
          load_podman_images e2e-python e2e-sshd
          touch "$podman_home/done"
          return
        fi
      done
    done
  done
  cat "$podman_home/trials.log" >&2
  die "Podman can run no container here, rootless or not; the reasons are above"
}

prepare_podman_user() {
  id "$podman_user" >/dev/null 2>&1 || useradd --no-create-home --home-dir "$podman_home" "$podman_user"
  mkdir -p "$podman_home" "$podman_run"
  chown "$podman_user:" "$podman_run"
  chmod 700 "$podman_run"
  # udev's mode. Rootless containers have no network without access to /dev/net/tun.
  [ ! -e /dev/net/tun ] || chmod 666 /dev/net/tun
}

podman_works() {
  [ -x "$podman_home/podman" ] && "$podman_home/podman" run --rm --pull never "localhost/e2e-minimal:$tag" true
}

load_podman_images() {  # NAME...
  docker save "${@/%/:$tag}" | "$podman_home/podman" load --quiet >/dev/null
}

# write_podman ROOTLESS DRIVER RUNTIME: write the program `podman` with its own settings and storage.
write_podman() {
  local how=rootful as='' limits='' home=$podman_home/$1-$2
  mkdir -p "$home"
  if [ "$1" = yes ]; then
    how=rootless
    as="setpriv --reuid $podman_user --regid $podman_user --init-groups"
    chown "$podman_user:" "$home"
  else
    # Podman's default limits are higher, and root may not be allowed to set them.
    limits="default_ulimits = [\"nofile=$(ulimit -Sn):$(ulimit -Hn)\", \"nproc=8192:8192\"]"
  fi
  printf '[containers]\n%s\n[engine]\nruntime = "%s"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n' \
    "$limits" "$3" >"$podman_home/containers.conf"
  printf '[storage]\ndriver = "%s"\ngraphroot = "%s"\nrunroot = "%s"\n' "$2" "$home/storage" "$podman_run/$1-$2" \
    >"$podman_home/storage.conf"
  cat >"$podman_home/podman" <<END
#!/bin/sh
# Podman, $how, by $3, on $2
export HOME=$home XDG_RUNTIME_DIR=$podman_run
export CONTAINERS_CONF=$podman_home/containers.conf CONTAINERS_STORAGE_CONF=$podman_home/storage.conf
cd "\$HOME" && exec $as podman "\$@"
END
  chmod 755 "$podman_home/podman"
}

podman_description() {  # how write_podman set it up
  sed -n 's/^# Podman, //p' "$podman_home/podman"
}
