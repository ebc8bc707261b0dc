"""What clients of several vendors store and list, in each vendor's words: files, skills, containers, models, pages."""
