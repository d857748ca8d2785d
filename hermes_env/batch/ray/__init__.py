"""The engine `ray`: runs tasks on a Ray cluster."""
