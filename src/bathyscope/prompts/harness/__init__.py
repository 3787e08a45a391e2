"""Tasks of lm-evaluation-harness (extra ``[eval]``): their files, their documents, and documents as prompts."""
