"""What figures are drawn with: axes, legends, colours, lines, heat maps, strips, forests, maps over tokens."""
