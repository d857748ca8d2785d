"""The engine `ray`: tasks on a Ray cluster."""
