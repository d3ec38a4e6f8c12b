"""Questions to a model, and how secl reads its answers. Begin with `asker`, which the other modules use."""
