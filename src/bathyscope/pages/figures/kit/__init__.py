"""Parts of figures: axes, legends, colours, lines, heat maps, strips, forests, maps over tokens."""
