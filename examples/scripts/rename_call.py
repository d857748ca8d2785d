"""A script as a model would write: rename `old_api_call` in all files of a search."""

from hermes_tools import patch, search_files

found = search_files("old_api_call", output_mode="files_only", limit=1000)
patched = 0
for match in found["matches"]:
    result = patch(match["path"], "old_api_call", "new_api_call", replace_all=True)
    if "error" not in str(result):
        patched += 1
    else:
        print(f"{match['path']}: {result['error']}")
print(f"patched {patched} of {found['total_count']} files")
