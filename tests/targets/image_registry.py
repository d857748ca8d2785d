"""A container registry with one image, on this machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from tarfile import TarFile

import docker

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


@contextmanager
def registry_with(client: docker.DockerClient, image: str) -> Iterator[str]:
    """Serve an image of the engine, and yield its name for a pull."""
    blobs, manifest = _exported(client, image)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(with_body=True)

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def _answer(self, with_body: bool) -> None:
            place, kind = self.path.rpartition("/")[2], "application/octet-stream"
            body = blobs.get(place)
            if self.path == "/v2/":
                body = b"{}"
            elif self.path.startswith("/v2/sample/manifests/") and place in ("latest", _digest(manifest)):
                body, kind = manifest, MANIFEST
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body or b"")))
            if kind == MANIFEST:
                self.send_header("Docker-Content-Digest", _digest(manifest))
            self.end_headers()
            if with_body and body:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}/sample"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _exported(client: docker.DockerClient, image: str) -> tuple[dict[str, bytes], bytes]:
    with TarFile(fileobj=BytesIO(b"".join(client.images.get(image).save()))) as tar:

        def member(name: str) -> bytes:
            file = tar.extractfile(name)
            assert file
            return file.read()

        (described,) = json.loads(member("manifest.json"))
        config, layers = member(described["Config"]), [member(name) for name in described["Layers"]]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _part("application/vnd.docker.container.image.v1+json", config),
        "layers": [_part("application/vnd.docker.image.rootfs.diff.tar", layer) for layer in layers],
    }
    return {_digest(blob): blob for blob in (config, *layers)}, json.dumps(manifest).encode()


def _part(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
