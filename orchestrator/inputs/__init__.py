"""From a recipe file to arms and requests: what is asked, with file and line."""
