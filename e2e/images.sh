# Images of the test containers. Sourced by setup.

build_images() {
  if ! have_image e2e-python; then
    build_python_root
    log "importing e2e-python:$tag"
    import_image e2e-python "$state/root" /usr/bin/bash
  fi
  if ! have_image e2e-minimal; then
    log "building e2e-minimal:$tag"
    build_minimal_root "$state/minimal"
    import_image e2e-minimal "$state/minimal" /usr/bin/sh
    rm -rf "$state/minimal"
  fi
  if ! have_image e2e-sshd; then
    log "building e2e-sshd:$tag"
    build_sshd_image
  fi
}

have_image() {
  docker image inspect "$1:$tag" >/dev/null 2>&1
}

import_image() {  # NAME ROOT SHELL
  tar -C "$2" -c . | docker import -c "CMD [\"$3\"]" -c 'WORKDIR /workspace' -c 'ENV LANG=C.UTF-8' \
    -c 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' - "$1:$tag" >/dev/null
}

# e2e-sshd is e2e-python and a layer of files. BuildKit would look for the local base image in a registry, so the
# classic builder is used.
build_sshd_image() {
  local context=$state/sshd layer=$state/sshd/layer folders
  build_python_root
  fetch_packages "$state/debs/sshd" "${python_packages[@]}" openssh-server openssh-sftp-server
  mkdir -p "$context"
  new_root "$layer"
  package_files "$state/debs/sshd" | without_files_of "$state/debs/python" | unpack "$layer"
  cp "$state/root/etc/passwd" "$layer/etc/passwd"
  echo 'sshd:x:101:65534::/run/sshd:/usr/sbin/nologin' >>"$layer/etc/passwd"
  mkdir -p "$layer/etc/ssh"
  cp "$here/sshd_config" "$layer/etc/ssh/sshd_config"
  install -D -m 755 "$here/sshd_entrypoint" "$layer/usr/local/bin/e2e-sshd"
  folders=$(cd "$layer" && ls -d usr/* etc)
  # shellcheck disable=SC2086 - these names have no spaces
  tar -C "$layer" -cf "$context/layer.tar" $folders
  rm -rf "$layer"
  printf 'FROM e2e-python:%s\nADD layer.tar /\nRUN ldconfig\nEXPOSE 22\nCMD ["/usr/local/bin/e2e-sshd"]\n' "$tag" \
    >"$context/Dockerfile"
  DOCKER_BUILDKIT=0 docker build -q -t "e2e-sshd:$tag" "$context" >"$state/build.log" 2>&1 ||
    { cat "$state/build.log" >&2; die "the image e2e-sshd:$tag could not be built"; }
}

without_files_of() {
  local folder=$1 file
  while read -r file; do
    [ -e "$folder/${file##*/}" ] || printf '%s\n' "$file"
  done
}
