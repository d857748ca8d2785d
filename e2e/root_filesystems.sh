# Root file systems, unpacked from .deb files: without a registry and without the packages' scripts. Sourced by setup.

python_packages=(
  usr-is-merged base-files base-passwd libc-bin bash coreutils python3 procps util-linux debianutils hostname grep sed
  mawk findutils diffutils tar gzip git ripgrep ca-certificates
)
minimal_packages=(libc6 dash busybox-static)
# Dependencies of the above that are useless without their setup scripts.
unused='/(perl|libperl|git-man|debconf|ucf)[^/]*$'

new_root() {  # with Debian's merged /usr
  local root=$1 folder
  rm -rf "$root"
  mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/{dev,proc,sys,tmp,root,etc,run,var/tmp,home,workspace,opt}
  for folder in bin sbin lib lib64; do
    ln -s "usr/$folder" "$root/$folder"
  done
  chmod 1777 "$root/tmp" "$root/var/tmp" "$root/workspace"
  chmod 700 "$root/root"
}

package_files() {  # FOLDER: the .deb files from fetch_packages
  find "$1" -maxdepth 1 -name '*.deb' | grep -Ev "$unused" | sort
}

unpack() {  # ROOT, and the names of .deb files on standard input
  local root=$1 file
  while read -r file; do
    dpkg-deb --fsys-tarfile "$file" | tar -C "$root" -x --keep-directory-symlink --exclude='./usr/share/doc*' \
      --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./usr/share/info/*'
  done
}

add_users() {  # root, Debian's system users, and agent (uid 1000)
  local root=$1 masters=$1/usr/share/base-passwd
  sed 's/^\([^:]*\):\*:/\1:x:/' "$masters/passwd.master" >"$root/etc/passwd"
  cp "$masters/group.master" "$root/etc/group"
  echo 'agent:x:1000:1000::/home/agent:/bin/bash' >>"$root/etc/passwd"
  echo 'agent:x:1000:' >>"$root/etc/group"
  awk -F: '{ print $1 ":*:19000:0:99999:7:::" }' "$root/etc/passwd" >"$root/etc/shadow"
  chmod 640 "$root/etc/shadow"
  mkdir -p "$root/home/agent"
  chown 1000:1000 "$root/home/agent" "$root/workspace"
}

# Steps of the packages' own scripts.
finish_python_root() {
  local root=$1 modules
  printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
  touch "$root"/etc/{hosts,resolv.conf,localtime}  # Apptainer mounts this machine's own on them
  mkdir -p "$root/etc/ssl/certs"
  find "$root/usr/share/ca-certificates" -name '*.crt' -print0 | sort -z | xargs -0 cat \
    >"$root/etc/ssl/certs/ca-certificates.crt"
  ln -sf bash "$root/usr/bin/sh"
  ln -sf which.debianutils "$root/usr/bin/which"
  [ -e "$root/usr/bin/awk" ] || ln -s mawk "$root/usr/bin/awk"
  ldconfig -r "$root"
  modules=argparse,asyncio,base64,dataclasses,hashlib,json,pathlib,shutil,socket,sqlite3,ssl,subprocess,tarfile
  chroot "$root" python3 -c "import $modules, tempfile, typing, unittest, urllib.request"  # leaves them compiled
}

build_python_root() {
  local root=$state/root
  [ ! -e "$root.done" ] || return 0
  log "building the root file system with Python, git and ripgrep"
  fetch_packages "$state/debs/python" "${python_packages[@]}"
  new_root "$root"
  package_files "$state/debs/python" | unpack "$root"
  add_users "$root"
  finish_python_root "$root"
  touch "$root.done"
}

build_minimal_root() {
  local root=$1
  fetch_packages "$state/debs/minimal" "${minimal_packages[@]}"
  new_root "$root"
  package_files "$state/debs/minimal" | unpack "$root"
  chroot "$root" /usr/bin/busybox --install -s /usr/bin
  ln -sf dash "$root/usr/bin/sh"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
}
