"""One kernel of each language, for the tests of its front end."""
