"""What a real pretrained model, SmolLM2-135M-Instruct unpacked from four bits, shows of the claims of the papers."""
