"""What MkDocs needs to build the site of docs/ beside mkdocs.yml."""
