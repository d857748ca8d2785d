"""Commands on this machine within walls, which bubblewrap puts up."""
