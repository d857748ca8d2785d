"""A script as a model would write: three searches, the best pages, and 500 characters of each."""

from hermes_tools import web_extract, web_search

votes = {}
for query in ("file locking on NFS", "fcntl locks NFS server", "flock over NFS"):
    found = web_search(query, limit=5)
    if "error" in found:
        raise SystemExit(found["error"])
    for hit in found["data"]["web"]:
        votes[hit["url"]] = votes.get(hit["url"], 0) + 1 / hit["position"]
best = sorted(votes, key=votes.get, reverse=True)[:3]
for page in web_extract(best)["results"]:
    if page["error"]:
        print(f"# {page['url']}\ncould not be read: {page['error']}\n")
    else:
        print(f"# {page['title']} ({page['url']})\n{page['content'][:500]}\n")
