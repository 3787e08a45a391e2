"""Two interventions on two real models: neighbouring blocks in parallel, and massive activations bounded."""
