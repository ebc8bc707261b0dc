"""An address book of the API: a document for programs, and a page for people."""
