"""What things cost, counted in what does not depend on the machine."""
