"""How much of what dropped blocks cost do a number, a map and a little training bring back."""
