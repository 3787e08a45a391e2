"""The depths of models that the package is shipped with, which ``bathyscope show RUN --among`` sets a run among."""
