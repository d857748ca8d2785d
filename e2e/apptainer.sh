# Apptainer, also as `singularity`, and its images. Sourced by setup.

apptainer_home=$state/apptainer
# Docker's default capabilities of root. Apptainer cannot grant "full" where root of this machine lacks some.
root_capabilities=CAP_CHOWN,CAP_DAC_OVERRIDE,CAP_FOWNER,CAP_FSETID,CAP_KILL,CAP_SETGID,CAP_SETUID,CAP_SETPCAP
root_capabilities+=,CAP_NET_BIND_SERVICE,CAP_NET_RAW,CAP_SYS_CHROOT,CAP_MKNOD,CAP_AUDIT_WRITE,CAP_SETFCAP

install_apptainer() {
  if [ -x "$bin/singularity" ] && "$bin/singularity" --version >/dev/null 2>&1; then
    return
  fi
  [ "$(dpkg --print-architecture)" = amd64 ] || die "Apptainer can only be set up on amd64"
  log "installing Apptainer from Debian's unstable release"
  fetch_from_sid "$state/debs/apptainer" apptainer >"$state/apptainer.log" 2>&1 ||
    { tail -n 5 "$state/apptainer.log" >&2; die "the package apptainer could not be fetched"; }
  unpack_apptainer
  configure_apptainer
  mkdir -p "$bin"
  ln -sfn "$apptainer_home/bin/apptainer" "$bin/apptainer"
  ln -sfn "$apptainer_home/bin/apptainer" "$bin/singularity"
  "$bin/singularity" --version >/dev/null || die "Apptainer was unpacked, and does not run"
}

unpack_apptainer() {
  local unpacked=$state/apptainer.unpacked libraries=lib/x86_64-linux-gnu
  rm -rf "$unpacked" "$apptainer_home"
  dpkg-deb -x "$state"/debs/apptainer/apptainer_*.deb "$unpacked"
  mkdir -p "$apptainer_home"/{bin,etc,lib,var/lib/apptainer/mnt/session}
  cp -a "$unpacked/etc/apptainer" "$apptainer_home/etc/"
  cp -a "$unpacked/usr/bin/apptainer" "$apptainer_home/bin/"
  cp -a "$unpacked/usr/$libraries" "$apptainer_home/lib/"
  ln -s apptainer "$apptainer_home/bin/singularity"
  ln -s ../var ../etc "$apptainer_home/lib/"  # the places where its starter program looks
  rm -rf "$unpacked"
  python3 "$here/older_glibc.py" "$apptainer_home/bin/apptainer" \
    "$apptainer_home/$libraries/apptainer/bin/starter"
}

configure_apptainer() {
  # Without systemd there is no service to ask for a control group.
  sed -i -e 's/^systemd cgroups = .*/systemd cgroups = no/' \
    -e 's/^root default capabilities = .*/root default capabilities = file/' \
    "$apptainer_home/etc/apptainer/apptainer.conf"
  "$apptainer_home/bin/apptainer" -s capability add --user root "$root_capabilities" 2>/dev/null
}

build_apptainer_images() {
  local sandbox=$state/e2e-python.sandbox sif=$state/e2e-python.sif
  if [ ! -e "$sandbox/.singularity.d/startscript" ]; then
    log "building the sandbox"
    build_python_root
    rm -rf "$sandbox"
    "$bin/apptainer" -s build --sandbox "$sandbox" "$state/root" 2>/dev/null
  fi
  if [ ! -e "$sif" ]; then
    log "building the SIF"
    rm -f "$sif.part"
    # gzip, the default, takes half a minute; zstd takes a second or two.
    "$bin/apptainer" -s build --mksquashfs-args '-comp zstd -Xcompression-level 1' "$sif.part" "$sandbox" \
      >/dev/null 2>&1
    mv "$sif.part" "$sif"
  fi
}

check_engines() {
  bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev true
  docker run --rm --network none "e2e-minimal:$tag" true
  "$bin/apptainer" -s exec --containall "$state/e2e-python.sandbox" true
}
