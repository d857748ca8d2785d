"""A script as a model would write: the lines with an image in YAML files below the working directory, as JSON."""

import json

from hermes_tools import search_files

found = search_files(r"^\s*image:", file_glob="*.yaml", limit=500)
if found.get("error"):
    raise SystemExit(found["error"])
matches = [{"file": match["path"], "line": match["line"], "text": match["content"][:200]} for match in found["matches"]]
print(json.dumps(matches, indent=2))
