"""What docs/agents.md takes for granted: a service."""

from pathlib import Path

from targets.ssh_server import free_port

Path("service").mkdir()
Path("service/main.py").write_text("""
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Health)
print("listening", flush=True)
server.serve_forever()
""")
replaced["8000"] = str(free_port())  # noqa: F821
