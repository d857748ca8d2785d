# A running Docker engine. Sourced by setup.

start_docker_engine() {
  if docker version >/dev/null 2>&1; then
    return
  fi
  # A second engine would take over the network bridge of the first. An engine without an answer is left alone.
  if pgrep -x dockerd >/dev/null; then
    die "dockerd runs and does not answer; see its log, or end it"
  fi
  log "starting dockerd, which logs to $state/dockerd.log"
  setsid -f dockerd >"$state/dockerd.log" 2>&1 </dev/null 9>&-
  local attempt
  for attempt in $(seq 150); do
    if docker version >/dev/null 2>&1; then
      return
    fi
    sleep 0.2
  done
  tail -n 5 "$state/dockerd.log" >&2
  die "dockerd did not come up in 30 s"
}
