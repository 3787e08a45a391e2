"""One survey on many machines: in parts that are joined, or by a pool of workers."""
